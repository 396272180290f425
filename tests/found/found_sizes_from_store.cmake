target_sources(found_sizes_from_store PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../group/ranks.c)
target_link_libraries(found_sizes_from_store PRIVATE group)
