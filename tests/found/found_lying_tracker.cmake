target_sources(found_lying_tracker PRIVATE ${PROJECT_SOURCE_DIR}/tests/capture/uring.c)
