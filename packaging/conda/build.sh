#!/bin/bash
# Without MPI: a library for one MPI is for that one only. Build it on the machine it is for.
set -eu
python=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cmake -S . -B build -G Ninja -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_BUILD_TYPE=Release -DVARVE_FAULTS=OFF -DVARVE_BENCH=OFF -DBUILD_TESTING=OFF -DVARVE_MPI=OFF -DVARVE_FORTRAN=OFF \
    -DVARVE_OPENCL=OFF -DVARVE_FLOAT_CODECS=OFF -DVARVE_RADOS=OFF -DVARVE_ENV=ON -DVARVE_S3=ON -DVARVE_CIPHER=ON -DVARVE_HDF5=ON \
    -DVARVE_ZLIB=ON -DVARVE_PYTHON_FOLDER="${python#"$PREFIX"/}"
cmake --build build
cmake --install build
