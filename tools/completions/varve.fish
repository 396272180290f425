# Completion of `varve` in fish, which adds files by itself. The tool itself says what a word can become.
complete -c varve -a '(varve complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
