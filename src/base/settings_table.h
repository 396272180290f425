/* Every run-time setting. A setting that is not in this table does not exist: the fields of struct vv_settings, the
 * parsing of files and environment, `varve config --list` and the manual page all come from it.
 *
 * X(tier, type, name, low, high, words, default, help), all values as a person would write them. The rows of a tier
 * stand together, in the order of the tiers:
 *   EVERYDAY   what the user of a program may want to set
 *   ADVANCED   for special machines, stores and programs
 *   MEASURING  to compare ways of working; the defaults are right
 * The types:
 *   INT     whole number
 *   BYTES   whole number, optionally followed by K, M, G or T (powers of 1024)
 *   DOUBLE  decimal number
 *   CHOICE  one of the words in low; the field holds its position, see the enums in settings.h. A switch is "off|on".
 *   TEXT    a word with its own check in settings.c; low shows what is allowed
 * high is NULL where there is no upper bound. words is NULL, or the words that stand for numbers of an INT, BYTES or
 * DOUBLE, such as "auto=0|off=1": people read and write the word, and the number stays allowed. */
#ifndef VV_SETTINGS_TABLE_H
#define VV_SETTINGS_TABLE_H

/* clang-format off */
#define VV_SETTINGS_TABLE(X)                                                                                           \
    X(EVERYDAY, INT, keep, "0", "1000000", "all=0", "3",                                                               \
      "How many checkpoints of a name to keep; older ones are forgotten. all (or 0) keeps every one; 1 is raised to"   \
      " 2, so that there is always one to fall back to. While nobody has set it, a run that finds more than six"       \
      " checkpoints of earlier runs leaves those alone and only keeps its own few: somebody may have wanted them."     \
      " After a restart that failed, nothing of earlier runs is forgotten, whatever is set. Pinned ones stay (varve"   \
      " pin).")                                                                                                        \
    X(EVERYDAY, DOUBLE, space, "0", "100", "off=0", "2",                                                               \
      "How much space the checkpoints that are kept may take, as a multiple of what they need: live chunks of old,"    \
      " nearly empty data are stored again so that it can go. Less space means more that is stored again: with pages"  \
      " that change at random about 0.3 of the new bytes with 2, a tenth with 3; up to 0.6 where most writes go to a"  \
      " few pages. Data of devices is never stored again. For a moment it may be more than that, above all in the"     \
      " first checkpoints of a job. off (or 0): nothing is ever stored again.")                                        \
    X(EVERYDAY, TEXT, on_error, "fail|warn|retry:n", NULL, NULL, "fail",                                               \
      "What a checkpoint that cannot be written does: make the call fail, only warn, or try n more times and then"     \
      " fail.")                                                                                                        \
    X(EVERYDAY, CHOICE, codec, "auto|size|none|lz4|zstd|lz4-zstd|shuffle-lz4|shuffle-zstd|bitshuffle-lz4|"             \
      "bitshuffle-zstd|delta-lz4|delta-zstd|xor-zstd|rotate-zstd|fpzip|zfp", NULL, NULL, "auto",                       \
      "How new data is compressed. auto: per variable and block what is stored soonest, by samples and by the speed"   \
      " of the storage, which on a fast disk is mostly none; size: what becomes smallest, by samples, or, where"       \
      " ranks share a writer, by trying every block. The others are for measuring: shuffle and bitshuffle put bytes"   \
      " or bits of equal place together, delta and xor take the difference from the neighbour first. rotate codes"     \
      " exponents apart from mantissas, for weights in f32, f16 and bf16. fpzip and zfp are for f32 and f64 and"       \
      " change no bit. What a codec cannot take gets zstd. fpzip and zfp are there if the library was built with"      \
      " them.")                                                                                                        \
    X(EVERYDAY, CHOICE, dedup, "auto|none|local|top-k|exact", NULL, NULL, "auto",                                      \
      "Where duplicates are looked for: nowhere but at the same place in the last checkpoint (none), in the process"   \
      " and its history (local), and between ranks: all of them (exact), or the most frequent (top-k). auto is exact"  \
      " while that saves time or a tenth of the bytes.")                                                               \
    X(EVERYDAY, INT, copies, "0", "4", "auto=0", "auto",                                                               \
      "On how many nodes all data is kept, as far as there are so many; may change from run to run. auto (or 0): 1"    \
      " on shared storage, 2 on node-local storage. Nodes are hosts, or what VARVE_DOMAIN says.")                      \
    X(EVERYDAY, INT, aggregate, "0", "4096", "auto=0|off=1", "auto",                                                   \
      "How many ranks share a writer at most, on shared storage: their new data meets there and becomes one object."   \
      " A node's ranks are split evenly; not with copies on other nodes, and only where they are numbered"             \
      " consecutively. off (or 1): every rank writes by itself. auto (or 0): 32 where every node has eight ranks or"   \
      " more, unless a rank has 8 MiB of new data or more and writing alone is measured to be faster.")                \
    X(EVERYDAY, CHOICE, storage, "shared|local", NULL, NULL, "shared",                                                 \
      "What a new store of a job is made for: one store that all ranks see, or one on every node's own disk. A store"  \
      " that exists keeps what it was made for.")                                                                      \
    X(EVERYDAY, CHOICE, access, "write|read", NULL, NULL, "write",                                                     \
      "read: the session only restarts. It claims nothing and writes nothing, so it works on a read-only mount, in a"  \
      " store of somebody else, and beside a running job; varve_checkpoint fails.")                                    \
    X(EVERYDAY, BYTES, staging, "0", NULL, "auto=0", "auto",                                                           \
      "How many bytes copies of the protected memory may take while a checkpoint is in flight. auto (or 0): the"       \
      " share staging_share, but 12M at least.")                                                                       \
    X(EVERYDAY, BYTES, memory, "0", NULL, "auto=0", "auto",                                                            \
      "The library takes at most about this much memory in a process that writes by itself. Tables and buffers come"   \
      " first; copies of changed pages get the rest, 1M at least. Too little makes checkpoints block longer. Not"      \
      " counted: fine chunks, what codecs take for each thread, memory that ranks share, a frozen copy of the"         \
      " process. bytes_memory of varve_stats(3) tells the use. auto (or 0): only staging and restart_window bound"     \
      " it.")                                                                                                          \
    X(EVERYDAY, DOUBLE, interval_seconds, "0", NULL, "off=0", "off",                                                   \
      "varve_need says yes when this much time has passed since the last checkpoint. off (or 0): time is not asked;"   \
      " with interval_share off, too, it always says yes.")                                                            \
    X(EVERYDAY, DOUBLE, interval_share, "0", "1", "off=0", "off",                                                      \
      "varve_need says yes if one more checkpoint keeps the time inside varve_checkpoint below this share of the run"  \
      " time. With interval_seconds set, too, either is enough. off (or 0): not asked.")                               \
    X(EVERYDAY, CHOICE, interval, "given|auto|asked", NULL, NULL, "given",                                             \
      "What makes a checkpoint due by time, for varve_need. given: interval_seconds and interval_share. auto:"         \
      " the interval with which the job loses least, by the mtbf and by what checkpoints have cost; the first"         \
      " of a job is due at once. asked: nothing, only signals, triggers and the end of the job. Where that end is"     \
      " known, and nothing tells how long a checkpoint takes, one is due at once, unless end_time is off.")            \
    X(EVERYDAY, CHOICE, log, "error|warn|info|debug|trace", NULL, NULL, "warn",                                        \
      "The least important messages that are logged.")                                                                 \
    X(ADVANCED, TEXT, parity, "off|k+m", NULL, NULL, "off",                                                            \
      "Instead of copies, on node-local storage: nodes form groups of k+m, and each keeps parity of the others, so"    \
      " that any m nodes of a group may be lost. m is 1 to 3, k is m to 13, both together 16 at the most. 4+2 takes"   \
      " half the bytes of the data more, where copies=2 takes all of them. With fewer nodes groups are smaller, and"   \
      " parity takes more.")                                                                                           \
    X(ADVANCED, CHOICE, heap, "auto|off|data|unchecked|fixed", NULL, NULL, "auto",                                     \
      "Protect the large allocations of a program that `varve run` has started, without their names. data: what"       \
      " they hold comes back into the allocations that the same code makes in the next run; what holds addresses is"   \
      " refused. unchecked: addresses are not looked for. fixed: the whole heap and the static variables, with the"    \
      " pointers in them; experimental. auto: data if `varve run` has started the program, fixed with `varve run"      \
      " --fixed`, else off.")                                                                                          \
    X(ADVANCED, DOUBLE, mtbf, "1", NULL, NULL, "86400",                                                                \
      "Mean time between failures of the whole job, in seconds; for interval=auto.")                                   \
    X(ADVANCED, CHOICE, signal, "off|USR1|USR2|HUP|INT|TERM|XCPU", NULL, NULL, "off",                                  \
      "A process of the job that gets this signal asks for a checkpoint: varve_need says yes on all ranks. A"          \
      " handler that was there before varve_open is called, too; what the system would do by itself is not done.")     \
    X(ADVANCED, CHOICE, exit_signal, "off|USR1|USR2|HUP|INT|TERM|XCPU", NULL, NULL, "off",                             \
      "The same, and the job should end: varve_should_exit says yes when that checkpoint is durable.")                 \
    X(ADVANCED, CHOICE, trigger, "off|on", NULL, NULL, "on",                                                           \
      "Look in the store for what `varve trigger` asks. Rank 0 does it inside varve_need, once a second at most,"      \
      " and less often where it takes more than 10 ms.")                                                               \
    X(ADVANCED, TEXT, trigger_file, "path", NULL, NULL, "",                                                            \
      "When this file appears, a checkpoint is asked for, and the file is removed. Rank 0 looks, as often as for"      \
      " trigger. Empty: no file.")                                                                                     \
    X(ADVANCED, DOUBLE, end_time, "0", "9000000000", "auto=0|off=1", "auto",                                           \
      "When the job must be over, in seconds since 1970. In time before that varve_need says yes, and"                 \
      " varve_should_exit when that checkpoint is durable. auto (or 0): SLURM_JOB_END_TIME of rank 0, if it is"        \
      " set. With both the earlier counts. off (or 1): none.")                                                         \
    X(ADVANCED, DOUBLE, end_slack, "0", NULL, NULL, "30",                                                              \
      "How many seconds before the end of the job its last checkpoint should be durable, beside twice the time"        \
      " that the last one took and the longest time between two calls of varve_need.")                                 \
    X(ADVANCED, TEXT, exit_file, "path", NULL, NULL, "",                                                               \
      "When varve_should_exit says yes for the first time, rank 0 makes this file: who started the job can tell that"  \
      " it left because it was asked to, and is not done. Its folder must be there when the session is opened."        \
      " Empty: no file.")                                                                                              \
    X(ADVANCED, INT, zstd_level, "1", "19", NULL, "1",                                                                 \
      "Level of zstd where zstd is used; with codec=size 9 at least.")                                                 \
    X(ADVANCED, TEXT, match, "pattern", NULL, NULL, "",                                                                \
      "Regions hold the same variable when their names are equal, or, with an extended regular expression here, when"  \
      " it finds the same text in them, in its first parentheses if it has any; names in which it finds nothing"       \
      " count as a whole. [^/]*$ makes rank0/p and rank1/p one. 255 bytes at most; one with a comma is given in a"     \
      " file or the environment, one with a # in the environment only.")                                               \
    X(ADVANCED, INT, fine, "0", "4096", "auto=0|off=1", "auto",                                                        \
      "Where 4 KiB have changed, look in chunks of so many bytes for what is new in them: 32, 64, 128, ... or 4096."   \
      " off (or 1): store all 4 KiB. auto (or 0): per region what samples say, which takes two or three checkpoints"   \
      " after every start in which all 4 KiB are stored. Programs may say it per region (varve_fine). Each chunk"      \
      " takes 12 bytes of memory: 37 % of the region with 32, 9 % with 128.")                                          \
    X(ADVANCED, DOUBLE, fine_share, "0", "1", NULL, "0.125",                                                           \
      "Share of the protected memory that is used to find fine chunks that turn up elsewhere; those that do not fit"   \
      " count as new then. Where fine is asked for, the 12 bytes for each fine chunk come on top; with fine=auto"      \
      " they count within this share.")                                                                                \
    X(ADVANCED, CHOICE, chunk, "fixed|cdc", NULL, NULL, "fixed",                                                       \
      "How varve import cuts files in which it finds no variables, to see what is stored already. fixed: every 4 KiB." \
      " cdc: where the content says so, which finds what moved because something was inserted before it; the files"    \
      " are read twice. What is stored by the one is not found by the other.")                                         \
    X(ADVANCED, CHOICE, chunk_size, "512|4K|32K", NULL, NULL, "4K",                                                    \
      "The mean size of chunks with chunk=cdc; they have half of it at least, and four times at most. Smaller ones"    \
      " find more that is stored already, but each takes 4 KiB of memory traffic at least and about 30 bytes in the"   \
      " store. An import has 2,000,000 chunks at most: 8 GB with 4K.")                                                 \
    X(ADVANCED, CHOICE, capture, "auto|sync|trap|frozen|held", NULL, NULL, "auto",                                     \
      "How the state is taken. auto copies what changed; what does not fit is held, frozen or stored inside the"       \
      " call, whatever costs least. sync stores everything inside the call; trap write-protects all memory and"        \
      " copies pages when they are first written. frozen always freezes what does not fit: a copy of the process,"     \
      " made by the kernel page by page as the program writes, keeps it until it is stored. held never does: for"      \
      " programs that must not have a child process.")                                                                 \
    X(ADVANCED, CHOICE, tracker, "auto|scan|softdirty|trap-uffd|trap-mprotect|none", NULL, NULL, "auto",               \
      "How changed pages are found. auto takes what works here: scan (Linux 6.7), else none. softdirty is for older"   \
      " kernels, and must be asked for (docs/kernels.md).")                                                            \
    X(ADVANCED, DOUBLE, staging_share, "0", "1", NULL, "0.05",                                                         \
      "Share of the protected memory that copies of it may take while a checkpoint is in flight; counts while"         \
      " staging is auto.")                                                                                             \
    X(ADVANCED, INT, threads, "0", "64", NULL, "2",                                                                    \
      "Threads that hash, compress and write; with 0 the calling thread does it.")                                     \
    X(ADVANCED, INT, nice, "0", "19", NULL, "5",                                                                       \
      "How much the threads of the library step back behind those of the program.")                                    \
    X(ADVANCED, TEXT, cpus, "auto|0+2-3", NULL, NULL, "auto",                                                          \
      "Processors that the threads of the library may use, such as 0+2-3 for the first, third and fourth; auto:"       \
      " those of the program.")                                                                                        \
    X(ADVANCED, CHOICE, direct, "auto|on|off", NULL, NULL, "auto",                                                     \
      "Write past the page cache (O_DIRECT).")                                                                         \
    X(ADVANCED, BYTES, min_free, "0", NULL, NULL, "16M",                                                               \
      "Refuse to store data when less than this would remain free on the storage, or, unless it is 0, less than 16"    \
      " inodes; small objects may use them.")                                                                          \
    X(ADVANCED, CHOICE, mode, "private|group|umask", NULL, NULL, "private",                                            \
      "Permissions of new files: for the owner only, for the owner and the group, or as the umask says.")              \
    X(ADVANCED, CHOICE, owner, "self|any", NULL, NULL, "self",                                                         \
      "Whose folders are written to: those of the user and of the superuser to which others may not write (self), or"  \
      " anybody's. With mode=group also those of others to which their group may write. Reading is always allowed.")   \
    X(ADVANCED, CHOICE, encrypt, "off|on", NULL, NULL, "off",                                                          \
      "on: a new store is encrypted, with the key that key names, and a store that is not encrypted is refused. Names" \
      " of checkpoints, numbers and sizes stay readable (docs/security.md). A store that is encrypted stays so, and"   \
      " opens with its key whatever is set here; set on all the same, or a store that somebody has emptied is begun"   \
      " anew without it.")                                                                                             \
    X(ADVANCED, TEXT, key, "file:PATH|env:NAME|command:TEXT", NULL, NULL, "",                                          \
      "Where the key of encrypted stores comes from: a file that only its owner and its group may read, a variable of" \
      " the environment, or what a command of the shell writes. It is 64 hexadecimal digits, as"                       \
      " `openssl rand -hex 32` makes them. Empty: there is none.")                                                     \
    X(ADVANCED, TEXT, tiers, "address;address", NULL, NULL, "",                                                        \
      "Further stores that committed checkpoints are copied to in the background, in order of trust: tier 2, tier 3"   \
      " and so on, with a semicolon between them. The store that the program opens is tier 1. Each is a whole store,"  \
      " made if it is missing; limit= in its address bounds the speed, keep= and waiting= go before tiers_keep and"    \
      " tiers_waiting. 255 bytes at most; an address with a comma is given in a file or the environment. Empty: none"  \
      " (docs/tiers.md).")                                                                                             \
    X(ADVANCED, INT, durable, "1", "8", NULL, "1",                                                                     \
      "The tier that must have a checkpoint before varve_wait returns, varve_test says yes, or varve_should_exit"      \
      " does. 1: the store that the program opens.")                                                                   \
    X(ADVANCED, INT, tiers_waiting, "1", "32", NULL, "2",                                                              \
      "How many checkpoints may wait for each further tier beside the one that is being copied. When one more comes,"  \
      " the oldest that waits is passed over, and this is told. Those that wait are not forgotten by keep.")           \
    X(ADVANCED, INT, tiers_keep, "0", "1000000", "all=0", "all",                                                       \
      "How many checkpoints of the name each further tier keeps; older ones are forgotten there when one arrives."     \
      " all (or 0) keeps every one; 1 is raised to 2. Pinned ones stay.")                                              \
    X(ADVANCED, DOUBLE, tiers_seconds, "0", NULL, NULL, "300",                                                         \
      "How long varve_close waits for checkpoints on their way to further tiers. What is left then is told, and"       \
      " `varve flush` copies it.")                                                                                     \
    X(ADVANCED, BYTES, restart_window, "1M", "1T", NULL, "256M",                                                       \
      "What each rank may use in a restart to read ahead, to pass on and to lend, beside the regions it fills."        \
      " Its threads and the blocks being read need some MiB more.")                                                    \
    X(ADVANCED, INT, beat_seconds, "1", "3600", NULL, "15",                                                            \
      "How often a session renews its heartbeat.")                                                                     \
    X(ADVANCED, INT, dead_seconds, "2", "86400", NULL, "60",                                                           \
      "A session whose heartbeat was seen unchanged for this long is dead; must be more than beat_seconds.")           \
    X(ADVANCED, INT, takeover_seconds, "0", "86400", NULL, "90",                                                       \
      "How long open waits to see whether another session that holds the name is dead.")                               \
    X(MEASURING, BYTES, block_size, "64K", "16M", NULL, "1M",                                                          \
      "Size of the blocks that are compressed and read as one.")                                                       \
    X(MEASURING, BYTES, part_size, "1M", "1T", NULL, "1G",                                                             \
      "A pack that passes this size is continued in another object.")                                                  \
    X(MEASURING, DOUBLE, table_share, "0", "0.5", NULL, "0.01",                                                        \
      "Share of the protected memory that the table of older chunk ids may take.")                                     \
    X(MEASURING, INT, dedup_top, "1", "16777216", NULL, "131072",                                                      \
      "How many ids top-k keeps, for the whole job; what falls off is stored by every rank that has it.")              \
    X(MEASURING, CHOICE, grouping, "auto|agnostic|agnostic-block|aware|aware-block", NULL, NULL, "auto",               \
      "What lies together when it is compressed: whole ranks one after another (agnostic) or in turns"                 \
      " (agnostic-block), the same variable of the ranks that share a writer one after another (aware) or in turns"    \
      " (aware-block). auto: per variable what a sample says.")                                                        \
    X(MEASURING, BYTES, group_block, "1K", "64K", NULL, "4K",                                                          \
      "How many bytes of a rank follow each other where ranks take turns; rounded down to a power of two.")            \
    X(MEASURING, CHOICE, fine_method, "tree|basic|full", NULL, NULL, "tree",                                           \
      "What is not stored: fine chunks that are as they were or found anywhere else (tree), only those that are as"    \
      " they were (basic), or nothing: every checkpoint holds everything (full). basic and full are for measuring.")   \
    X(MEASURING, CHOICE, order, "learned|address", NULL, NULL, "learned",                                              \
      "In which order held pages are stored: as the program is expected to write them, or by address.")                \
    X(MEASURING, INT, queue, "0", "1024", "auto=0", "auto",                                                            \
      "Blocks that may wait for the storage where a rank writes by itself, each of block_size; part of staging. auto"  \
      " (or 0): threads + 2.")
/* clang-format on */

#endif
