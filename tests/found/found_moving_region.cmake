target_sources(found_moving_region PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../group/ranks.c)
target_link_libraries(found_moving_region PRIVATE group)
