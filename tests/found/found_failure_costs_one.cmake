target_sources(found_failure_costs_one PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../group/ranks.c)
target_link_libraries(found_failure_costs_one PRIVATE group)
