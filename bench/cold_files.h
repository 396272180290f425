/* All files of a folder, read cold by ranks that know nothing of them: what a restart is compared with. */
#ifndef COLD_FILES_H
#define COLD_FILES_H

/* Collective. Each rank takes its share of the files, whole. Seconds until all are done. */
double cold_files_read(const char *folder);

#endif
