# The manual pages can be made and have no fault that mandoc knows.
. "${SOURCE:?}/lib.sh"
if ! command -v scdoc >/dev/null || ! command -v mandoc >/dev/null; then
	echo "1..0 # skip scdoc or mandoc is missing"
	exit 77
fi
for section in 1 3 5; do
	check "scdoc varve.$section" sh -c "scdoc <'$SOURCE/../../docs/man/varve.$section.scd' >varve.$section"
	# What scdoc itself prints makes empty paragraphs; everything else is ours.
	mandoc -T lint -W warning varve.$section 2>&1 | grep -v 'skipping paragraph macro: PP' >out
	check "mandoc varve.$section" test ! -s out
done
for command in ls show diff stats verify restore forget prune repair config help; do
	check "varve(1) has $command" grep -q "^\*varve $command\*" "$SOURCE/../../docs/man/varve.1.scd"
done
finish
