target_sources(found_pinned_memory PRIVATE ${PROJECT_SOURCE_DIR}/tests/capture/uring.c)
