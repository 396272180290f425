target_sources(found_silent_first_run PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../group/ranks.c)
target_link_libraries(found_silent_first_run PRIVATE group)
