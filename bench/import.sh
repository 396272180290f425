#!/bin/sh
# import.sh VARVE FOLDER [OPTION...]: what `varve import` makes of 32 HDF5 files in 4 versions, compared with tar and zstd. Needs a
# Python with h5py and numpy (H5PYTHON says which); 77 if there is none. Options as of import.py.
for python in "${H5PYTHON:-}" python3 /usr/bin/python3; do
	if [ -n "$python" ] && "$python" -c 'import h5py, numpy' 2>/dev/null; then
		exec "$python" -B "$(dirname "$0")/import.py" "$@"
	fi
done
echo "skipped: no Python with h5py and numpy"
exit 77
