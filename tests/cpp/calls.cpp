// varve.hpp: types, vectors that a restart resizes, moves, exceptions and codes. calls FOLDER
#include <array>
#include <cerrno>
#include <complex>
#include <cstdlib>
#include <iostream>
#include <memory>
#if __cplusplus >= 202002L
#include <span>
#endif
#include <string>
#include <varve/varve.hpp>
#include <vector>

static_assert(varve::type_of<float>() == VARVE_F32 && varve::type_of<double>() == VARVE_F64);
static_assert(varve::type_of<char>() == (std::is_signed_v<char> ? VARVE_I8 : VARVE_U8));
static_assert(varve::type_of<std::int64_t>() == VARVE_I64 && varve::type_of<std::uint16_t>() == VARVE_U16);
static_assert(varve::type_of<bool>() == VARVE_U8 && varve::type_of<std::complex<double>>() == VARVE_C128);
static_assert(varve::type_of<std::byte>() == VARVE_BYTES && varve::type_of<long double>() == VARVE_BYTES);
static_assert(!std::is_copy_constructible_v<varve::session> && std::is_nothrow_move_constructible_v<varve::session>);
static_assert(std::is_nothrow_move_assignable_v<varve::session>);

namespace {

int failed = 0;
std::string folder;

void expect(bool is_true, const std::string &what) {
    if (!is_true) {
        failed++;
        std::cout << "FAILED: " << what << "\n";
    }
}

template <class Call> int thrown(Call call) {
    try {
        call();
    } catch (const varve::failure &f) {
        expect(std::string(f.what()) != "", "an exception has a text");
        return f.code();
    }
    return 0;
}

enum class colour : std::int16_t { red = 1, blue = 7 };
struct plain {
    double a;
    char b[3];
};
#if __cplusplus >= 202002L
template <class T> using view = std::span<T>;
#else
template <class T> struct view { // as std::span
    T *data_;
    std::size_t size_;
    T *data() const {
        return data_;
    }
    std::size_t size() const {
        return size_;
    }
};
#endif

struct data {
    std::vector<double> v;
    std::vector<plain> structs;
    std::string text;
    std::array<std::int32_t, 3> a{};
    float c[2][2] = {};
    std::complex<float> z;
    colour hue = colour::red;
    std::unique_ptr<std::uint8_t[]> heap = std::make_unique<std::uint8_t[]>(5);
    std::vector<double> block = std::vector<double>(6);

    void protect(varve::session &s) {
        s.protect("v", v);
        s.protect("structs", structs);
        s.protect("text", text);
        s.protect("a", a);
        s.protect("c", c);
        s.protect("z", z);
        s.protect("hue", hue);
        s.protect("heap", heap.get(), 5);
        s.protect("view", view<double>{block.data(), 2});
        view<double> named{&block[2], 1};
        s.protect("named", named); // the memory, not the view
        s.protect("block", block.data() + 3, {{1, 0, 1}, {3, 0, 3}});
    }
};

struct seen {
    std::string name;
    int type;
    unsigned dims;
    std::uint64_t local, last;
};
int see(void *arg, const varve_region_info *region) {
    const varve_array *a = region->array;
    static_cast<std::vector<seen> *>(arg)->push_back(
        {region->name, a->type, a->dims, a->dim[0].local, a->dims > 0 ? a->dim[a->dims - 1].local : 0});
    return 0;
}

void check_stored(varve::session &s) {
    std::vector<seen> all;
    expect(varve_stored(s.handle(), VARVE_LATEST, see, &all, nullptr) == 0, "varve.h takes the handle");
    for (const seen &one : all) {
        if (one.name == "v")
            expect(one.type == VARVE_F64 && one.dims == 1 && one.local == 1000, "a vector of doubles");
        if (one.name == "structs")
            expect(one.type == VARVE_BYTES && one.dims == 2 && one.last == sizeof(plain), "structs are bytes");
        if (one.name == "hue")
            expect(one.type == VARVE_I16 && one.local == 1, "an enumeration");
        if (one.name == "block")
            expect(one.type == VARVE_F64 && one.dims == 2 && one.last == 3, "dimensions");
    }
    expect(all.size() == 11, "eleven regions");
}

void every_type() {
    {
        data d;
        varve::session s(folder + "/types", "types");
        d.protect(s);
        expect(!s.restart(), "a first run");
        d.v.assign(1000, 0.5); // grown, and moved
        d.v[999] = 7;
        d.structs = {{1.5, "ab"}, {2.5, "cd"}};
        d.text = "not short, so that it is on the heap of the process";
        d.a = {1, 2, -3};
        d.c[1][1] = 4;
        d.z = {5, -6};
        d.hue = colour::blue;
        d.heap[4] = 200;
        d.block = {1, 2, 3, 4, 5, 6};
        d.protect(s); // assigned to, block may lie elsewhere
        s.checkpoint(3);
        s.wait();
        check_stored(s);
    }
    data d;
    varve::session s(folder + "/types", "types", "keep=2");
    d.protect(s);
    d.v.resize(17);
    auto version = s.restart();
    expect(version && *version == 3, "the version comes back");
    expect(d.v.size() == 1000 && d.v[999] == 7 && d.v[0] == 0.5, "a vector is resized and filled");
    expect(d.structs.size() == 2 && d.structs[1].a == 2.5 && d.structs[1].b[0] == 'c', "a vector of structs");
    expect(d.text.size() == 51 && d.text.substr(0, 9) == "not short", "a string");
    expect(d.a[2] == -3 && d.c[1][1] == 4 && d.z.imag() == -6 && d.hue == colour::blue, "what stays where it is");
    expect(d.heap[4] == 200 && d.block[2] == 3 && d.block[5] == 6, "pointers, views and blocks");
    d.v.resize(5000, 1.25); // it moves again: the session must ask
    s.checkpoint(4);
    d.v.clear();
    d.v.shrink_to_fit();
    expect(s.restart().value_or(0) == 4 && d.v.size() == 5000 && d.v[4999] == 1.25 && d.v[999] == 7,
           "what was restored may move and grow");
    d.v.clear();
    s.checkpoint(5);
    d.v.resize(3);
    expect(s.restart().value_or(0) == 5 && d.v.empty(), "a vector may be empty");
}

void refusals() {
    varve_error error{};
    {
        std::vector<double> v(10, 1.0);
        std::array<int, 4> a{1, 2, 3, 4};
        varve::session s(folder + "/refusals", "refusals");
        s.protect("v", v);
        s.protect("a", a);
        s.checkpoint(1);
        s.close();
    }
    std::vector<float> floats;
    std::array<int, 3> small{};
    varve::session s(folder + "/refusals", "refusals");
    s.protect("v", floats);
    int code = thrown([&] { s.restart(); });
    expect(code == VARVE_MISMATCH && floats.empty(), "a vector of another type is refused, with a code of its own");
    expect(!s.restart(VARVE_LATEST, &error) && error.code == VARVE_MISMATCH &&
               std::string(error.text).find("region v") != std::string::npos,
           std::string("and by its name: ") + error.text);
    std::vector<plain> others;
    s.protect("v", others);
    expect(thrown([&] { s.restart(); }) == VARVE_MISMATCH && others.empty(), "so is one of structs");
    expect(thrown([&] { s.restart(9); }) == -ENOENT, "a version that is not there has another code");
    std::vector<double> v;
    s.protect("v", v);
    s.protect("a", small);
    expect(!s.restart(VARVE_LATEST, &error) && error.code == VARVE_MISMATCH, "an array of another size is refused");
    expect(std::string(error.text).find("region a") != std::string::npos, std::string("by its name: ") + error.text);
    s.unprotect("a");
    expect(s.checkpoint(2, &error) == 0, std::string("the vector is protected as before: ") + error.text);
    s.wait();
    s.reject(2);
    expect(s.restart(VARVE_LATEST, &error).value_or(0) == 1 && error.code == 0 && v.size() == 10,
           "without it, all is well");
    expect(thrown([&] { s.unprotect("a"); }) == -ENOENT, "nothing is unprotected twice");
    s.checkpoint(3);
    expect(s.checkpoint(3, &error) < 0 && error.code < 0 && error.text[0] != 0, "a version that is not above the last");
    expect(thrown([&] { s.checkpoint(3); }) == error.code, "the same code either way");
}

// A vector of varve::allocator is found and restored by its name.
using named = std::vector<double, varve::allocator<double>>;

void check_growth(varve::session &s) {
    named v(1000, 1.5, s.memory<double>("v"));
    s.checkpoint(1);
    v.reserve(5000); // another block, of the same name
    v.resize(1500, 2.5);
    named copy = v; // memory as ever
    copy[0] = 7;
    s.checkpoint(2);
    named other;
    other.swap(v); // the name goes along
    other[1] = 3.5;
    v = named(10, 9.5);
    s.checkpoint(3);
    s.wait();
    std::vector<seen> all;
    expect(varve_stored(s.handle(), VARVE_LATEST, see, &all, nullptr) == 0 && all.size() == 1, "one region");
    expect(all.size() == 1 && all[0].name == "v" && all[0].type == VARVE_F64 && all[0].local == 5000,
           "of the name and type, as large as the capacity");
}

void named_memory() {
    named late;
    {
        varve::session s(folder + "/named", "named");
        check_growth(s);
        late = named(10, 4.5, s.memory<double>("late"));
        s.close();
        expect(thrown([&] { named gone(5, s.memory<double>("gone")); }) == -EINVAL, "not without a session");
    }
    {
        varve::session s(folder + "/named", "named");
        named v(s.memory<double>("v"));
        v.reserve(5000);
        v.resize(1500);
        expect(s.restart().value_or(0) == 3, "the newest comes back");
        expect(v[0] == 1.5 && v[1] == 3.5 && v[999] == 1.5 && v[1499] == 2.5, "in the vector of that name");
    }
    varve::session s(folder + "/named", "named");
    named small(1000, s.memory<double>("v"));
    varve_error error{};
    expect(!s.restart(VARVE_LATEST, &error) && error.code == VARVE_MISMATCH &&
               std::string(error.text).find("region v") != std::string::npos,
           std::string("another capacity is refused: ") + error.text);
    named right(s.memory<double>("v"));
    right.swap(small);
    small.reserve(5000);
    small.resize(2);
    right = named();
    expect(s.restart(VARVE_LATEST, &error).value_or(0) == 3 && small[1] == 3.5,
           std::string("of two the newer has the name: ") + error.text);
}

void moves() {
    std::vector<int> v{1, 2, 3};
    varve::session s(folder + "/moves", "moves");
    s.protect("v", v);
    varve::session t = std::move(s);
    expect(!s && t, "the session has moved"); // NOLINT: this is what is looked at
    expect(thrown([&] { s.checkpoint(1); }) == -EINVAL, "what was moved from is not open");
    v.resize(100, 4);
    t.checkpoint(1);
    v.clear();
    expect(t.restart().value_or(0) == 1 && v.size() == 100, "regions move along");
    varve_error error{};
    varve::session busy(folder + "/moves", "moves", "takeover_seconds=0", &error);
    expect(!busy && error.code == VARVE_BUSY, "an open session keeps its name");
    t = varve::session(folder + "/moves", "other"); // the first one is closed
    varve::session again(folder + "/moves", "moves");
    expect(bool(again) && bool(t), "assigning closes");
    std::vector<varve::session> many;
    many.push_back(std::move(t));
    many.push_back(std::move(again));
    many.clear();
    varve::session last(folder + "/moves", "moves", "", &error);
    expect(error.code == 0 && bool(last), "and so does a container of sessions");
    expect(last.close() == 0 && last.close() == 0 && !last, "close may be called twice");
}

// An exception in the loop: the store restarts from the last checkpoint that was begun.
void exceptions() {
    bool is_caught = false;
    try {
        std::vector<double> v(200000, 1);
        varve::session s(folder + "/thrown", "thrown");
        s.protect("v", v);
        for (int step = 1;; step++) {
            v[static_cast<std::size_t>(step)] = step;
            s.checkpoint(step);
            if (step == 5)
                throw std::runtime_error("the program is wrong");
        }
    } catch (const std::runtime_error &e) {
        is_caught = std::string(e.what()) == "the program is wrong";
    }
    expect(is_caught, "the exception of the program comes through");
    std::vector<double> v;
    varve::session s(folder + "/thrown", "thrown");
    s.protect("v", v);
    expect(s.restart().value_or(0) == 5 && v.size() == 200000 && v[5] == 5 && v[6] == 1,
           "the last checkpoint is there");
}

void errors() {
    varve_error error{};
    varve::session none;
    expect(none.wait(&error) == -EINVAL && error.text[0] != 0, "a session that is not open");
    expect(!none.restart(VARVE_LATEST, &error) && error.code == -EINVAL, "nor is it restarted");
    expect(thrown([] { varve::session s("/dev/null/x", "errors"); }) < 0, "a store that cannot be");
    expect(thrown([] { varve::session s(folder + "/errors", "errors", "keep=many"); }) == VARVE_SETTING, "a setting");
    varve::session s(folder + "/errors", "errors");
    int x = 5;
    s.protect("x", x);
    s.distribute("x", VARVE_REPLICATED);
    s.attribute("language", "C++");
    s.checkpoint(1);
    s.release();
    s.wait();
    expect(s.test() && s.need(), "it survives, and the next is due");
    expect(!s.should_exit() && s.time_left() > 0, "nobody wants the job to end");
    s.checkpoint(2);
    s.reject(2);
    expect(s.restart().value_or(0) == 1, "a rejected checkpoint is not offered again");
    expect(thrown([&] { s.restart(99); }) == -ENOENT, "a version that is not there");
}

} // namespace

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : ".";
    every_type();
    refusals();
    named_memory();
    moves();
    exceptions();
    errors();
    std::cout << (failed ? "checks failed\n" : "all checks passed\n");
    return failed ? 1 : 0;
}
