/* The paper's tree, level by level: nodes that nothing is joined to are entries ("roots"). */
#include "paper_tree.h"

#include <stdlib.h>

#include "bench.h"

struct node {
    uint64_t index; /* on its level */
    XXH128_hash_t hash;
};

static XXH128_hash_t join(const struct node *pair) {
    const XXH128_hash_t both[2] = {pair[0].hash, pair[1].hash};
    return XXH3_128bits(both, sizeof both);
}

/* One level up. Nodes that have a parent become it, at the start of the list; the others are counted. Returns how many
 * parents there are. */
static size_t climb(struct paper_tree *tree, struct node *nodes, size_t count, int is_first, uint64_t *roots) {
    size_t parents = 0;
    for (size_t i = 0; i < count; i++) {
        int is_pair = i + 1 < count && nodes[i].index % 2 == 0 && nodes[i].index + 1 == nodes[i + 1].index;
        XXH128_hash_t hash = is_pair ? join(nodes + i) : nodes[i].hash;
        if (!is_pair || (!is_first && !known_has(&tree->known, hash))) {
            *roots += 1 + (uint64_t)is_pair;
        } else {
            if (is_first)
                known_put(&tree->known, hash, 0);
            nodes[parents++] = (struct node){nodes[i].index / 2, hash};
        }
        i += (size_t)is_pair;
    }
    return parents;
}

static void climb_all(struct paper_tree *tree, const struct changed *changed, size_t count, int is_first,
                      uint64_t *roots) {
    struct node *nodes = malloc((count + 1) * sizeof *nodes);
    size_t kept = 0;
    bench_check(nodes != NULL, "memory");
    for (size_t i = 0; i < count; i++)
        if (changed[i].is_first == is_first)
            nodes[kept++] = (struct node){changed[i].index, changed[i].hash};
    while (kept > 0)
        kept = climb(tree, nodes, kept, is_first, roots);
    free(nodes);
}

void paper_tree_checkpoint(struct paper_tree *tree, const struct changed *changed, size_t count) {
    climb_all(tree, changed, count, 1, &tree->first_roots);
    climb_all(tree, changed, count, 0, &tree->shifted_roots);
}

void paper_tree_clear(struct paper_tree *tree) {
    known_clear(&tree->known);
    *tree = (struct paper_tree){0};
}
