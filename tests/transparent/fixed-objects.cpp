// A program of C++ whose state is full of pointers: maps, vectors, texts, nodes that point to each other, objects with
// virtual functions. It names nothing, and runs by `varve run --fixed`. Usage: fixed-objects STORE STEPS KILL_AT
// It walks all pointers after a restart and in every step; 7: one is wrong.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ios>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <varve/varve.h>
#include <vector>

namespace {

constexpr std::uint64_t magic = 0x5661727665212121u;

struct Shape {
    virtual ~Shape() = default;
    virtual std::uint64_t area() const = 0;
};
struct Square : Shape {
    std::uint64_t side;
    explicit Square(std::uint64_t s) : side(s) {
    }
    std::uint64_t area() const override {
        return side * side;
    }
};
struct Line : Shape {
    std::uint64_t area() const override {
        return 1;
    }
};

struct Node {
    std::uint64_t check = magic, id;
    Node *next = this, *before = this;
    std::string text;
    std::vector<Node *> friends; // both ways
    std::unique_ptr<Shape> shape;
    explicit Node(std::uint64_t n) : id(n), text("node number " + std::to_string(n)) {
        if (n % 3)
            shape = std::make_unique<Square>(n % 1000);
        else
            shape = std::make_unique<Line>();
    }
};

// All of it outside of main: the stack does not come back.
std::map<std::uint64_t, Node *> by_id;
std::unordered_map<std::string, Node *> by_text;
std::list<std::string> history;
std::vector<std::vector<double>> rows;
std::function<std::uint64_t(std::uint64_t)> mixer;
Node *ring;
std::uint64_t seed = 88172645463325252u, made;
std::FILE *told;        // memory of the C library,
varve_session *session; // and of Varve: this process's own
thread_local std::uint64_t calls;

std::uint64_t any() {
    calls++;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

void add_node() {
    Node *node = new Node(made++);
    if (ring) {
        node->next = ring;
        node->before = ring->before;
        ring->before->next = node;
        ring->before = node;
        for (int i = 0; i < 3; i++) {
            Node *other = by_id.lower_bound(any() % (by_id.rbegin()->first + 1))->second;
            node->friends.push_back(other);
            other->friends.push_back(node);
        }
    }
    ring = node;
    by_id[node->id] = node;
    by_text[node->text] = node;
}

void drop_node() {
    Node *node = ring->next->next;
    for (Node *other : node->friends)
        for (std::size_t i = 0; i < other->friends.size(); i++)
            if (other->friends[i] == node) {
                other->friends.erase(other->friends.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
    node->next->before = node->before;
    node->before->next = node->next;
    by_id.erase(node->id);
    by_text.erase(node->text);
    delete node;
}

void advance(std::int64_t step) {
    static std::string last = "none"; // made in the first step
    for (int i = 0; i < 100; i++)
        add_node();
    for (int i = 0; i < 97; i++)
        drop_node();
    history.push_back("step " + std::to_string(step) + " after " + last);
    last = std::to_string(mixer(any()));
    rows.emplace_back(100 + any() % 20000, static_cast<double>(step));
    for (auto &row : rows)
        row[any() % row.size()] += 0.5;
    if (rows.size() > 12)
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(any() % rows.size()));
}

struct Goodbye {
    ~Goodbye() {
        std::fputs("goodbye\n", stderr);
    }
};

void make_goodbye() { // when it is first reached, after varve_restart
    static Goodbye goodbye;
}

void mix(std::uint64_t &hash, const void *data, std::size_t size) {
    for (std::size_t i = 0; i < size; i++)
        hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
}

void mix(std::uint64_t &hash, const std::string &text) {
    mix(hash, text.data(), text.size());
}

[[noreturn]] void wrong(const char *what) {
    std::fprintf(stderr, "wrong: %s\n", what);
    std::_Exit(7);
}

// Every pointer is followed, and everything goes into the digest.
std::uint64_t walk() {
    std::uint64_t hash = 0xcbf29ce484222325u, count = 0;
    for (Node *node = ring; node && (count == 0 || node != ring); node = node->next, count++) {
        if (node->check != magic || node->next->before != node || node->before->next != node)
            wrong("the ring");
        auto found = by_text.find(node->text);
        if (by_id.at(node->id) != node || found == by_text.end() || found->second != node)
            wrong("an index");
        for (Node *other : node->friends) {
            std::size_t back = 0;
            for (Node *friend_of : other->friends)
                back += friend_of == node;
            if (other->check != magic || back == 0)
                wrong("a friend");
            mix(hash, other->text);
        }
        std::uint64_t area = node->shape->area();
        mix(hash, &area, sizeof area);
        mix(hash, node->text);
    }
    if (count != by_id.size() || count != by_text.size())
        wrong("how many there are");
    for (const auto &text : history)
        mix(hash, text);
    for (const auto &row : rows)
        mix(hash, row.data(), row.size() * sizeof(double));
    mix(hash, &seed, sizeof seed);
    mix(hash, &calls, sizeof calls);
    return hash;
}

int stop(const char *call, const char *text) {
    std::fprintf(stderr, "%s: %s\n", call, text);
    return 4;
}

int run(int argc, char **argv) {
    varve_error error;
    std::int64_t step = -1;
    if (argc != 4)
        return 2;
    if (std::getenv("OWN_BUFFERS")) // libstdc++ allocates them
        std::ios::sync_with_stdio(false);
    if (std::getenv("OWN_LOCALE"))
        std::locale::global(std::locale(std::locale(), new std::numpunct<char>));
    told = fdopen(dup(STDERR_FILENO), "a");
    if (!told || varve_open(argv[1], "objects", nullptr, &session, &error) != 0)
        return stop("open", error.text);
    mixer = [](std::uint64_t x) { return x * 0x9e3779b97f4a7c15u; };
    for (int i = 0; i < 500; i++)
        add_node();
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return stop("restart", varve_session_error(session)->text);
    std::fprintf(told, "begins at %d\n", static_cast<int>(step) + 1);
    std::fflush(told);
    walk();
    for (step++; step < std::atoi(argv[2]); step++) {
        advance(step);
        if (std::getenv("OWN_END"))
            make_goodbye();
        walk();
        if (step % 2 == 0 && varve_checkpoint(session, step) != 0)
            return stop("checkpoint", varve_session_error(session)->text);
        if (step == std::atoi(argv[3]) && varve_wait(session) == 0)
            kill(getpid(), SIGKILL);
    }
    if (varve_close(session) != 0)
        return stop("close", "the last checkpoint is not safe");
    std::printf("%016llx\n", static_cast<unsigned long long>(walk()));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (!std::getenv("OWN_CATCH"))
        return run(argc, argv);
    try {
        throw std::string("libstdc++ holds it until the end of the catch");
    } catch (const std::string &) {
        return run(argc, argv);
    }
}
