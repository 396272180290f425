# The manual pages can be made and have no fault that mandoc knows.
. "${SOURCE:?}/lib.sh"
if ! command -v scdoc >/dev/null || ! command -v mandoc >/dev/null; then
	echo "1..0 # skip scdoc or mandoc is missing"
	exit 77
fi
for page in varve.1 varve.3 varve.5 varve-import.1 varve-export.1 varve-job.1 varve-read.1 varve-slurm.1; do
	check "scdoc $page" sh -c "scdoc <'$SOURCE/../../docs/man/$page.scd' >$page"
	# What scdoc itself prints makes empty paragraphs; everything else is ours.
	mandoc -T lint -W warning $page 2>&1 | grep -v 'skipping paragraph macro: PP' >out
	check "mandoc $page" test ! -s out
done
check "varve help lists commands" test "$(commands | wc -l)" -gt 20
for command in $(commands) help; do
	check "varve(1) has $command" grep -q "^\*varve $command\*" "$SOURCE/../../docs/man/varve.1.scd"
done
finish
