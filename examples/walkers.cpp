// Walkers that multiply and die, in C++, and the program survives being killed.
//
//     walkers [--steps N] [--every N] [--delay MICROSECONDS] [--out FILE] STORE
//
// 2000 steps and a checkpoint every 20, unless told. The walkers are in vectors, whose length changes in every step: a
// restart resizes them to what is stored. Kill it at any time and start it again in the same way: what it writes to
// --out has the same bits however often it was killed.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <varve/varve.hpp>
#include <vector>

namespace {

struct dice { // saved, too: the same numbers must follow
    std::uint64_t state = 88172645463325252u;
    std::uint64_t born = 1000;

    double roll() { // xorshift, 0 to 1
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<double>(state >> 11) / 9007199254740992.0;
    }
};

struct options {
    std::int64_t steps = 2000, every = 20, delay_us = 0;
    std::string out, store;
};

struct walkers {
    std::vector<double> place;
    std::vector<std::uint64_t> number;
    dice d;

    walkers() : place(1000), number(1000) {
        for (std::size_t i = 0; i < number.size(); i++)
            number[i] = i;
    }

    // Each goes left or right. The far ones die; some have a child, unless there are too many.
    void step() {
        std::size_t kept = 0, count = place.size();
        for (std::size_t i = 0; i < count; i++) {
            double to = place[i] + d.roll() - 0.5, luck = d.roll();
            if (to * to > 400 || luck < 0.004)
                continue;
            place[kept] = to;
            number[kept++] = number[i];
            if (luck > 0.992 && place.size() < 20000) {
                place.push_back(to);
                number.push_back(d.born++);
            }
        }
        auto gone = static_cast<std::ptrdiff_t>(count - kept);
        auto first = static_cast<std::ptrdiff_t>(kept);
        place.erase(place.begin() + first, place.begin() + first + gone);
        number.erase(number.begin() + first, number.begin() + first + gone);
    }

    void write(const std::string &file) const {
        std::ofstream out(file, std::ios::binary);
        out.write(reinterpret_cast<const char *>(place.data()),
                  static_cast<std::streamsize>(place.size() * sizeof(double)));
        out.write(reinterpret_cast<const char *>(number.data()),
                  static_cast<std::streamsize>(number.size() * sizeof(std::uint64_t)));
        if (!out.flush())
            throw std::runtime_error(file + " cannot be written");
    }
};

options read_arguments(int argc, char **argv) {
    options o;
    int at = 1;
    for (; at + 1 < argc; at += 2) {
        std::string name = argv[at], value = argv[at + 1];
        if (name == "--steps")
            o.steps = std::stoll(value);
        else if (name == "--every")
            o.every = std::stoll(value);
        else if (name == "--delay")
            o.delay_us = std::stoll(value);
        else if (name == "--out")
            o.out = value;
        else
            throw std::runtime_error("there is no option " + name);
    }
    if (at != argc - 1 || argv[at][0] == '-' || o.every < 1)
        throw std::runtime_error("usage: walkers [--steps N] [--every N] [--delay N] [--out FILE] STORE");
    o.store = argv[at];
    return o;
}

void run(const options &o) {
    walkers w;
    varve::session s(o.store, "walkers"); // after the data: it is closed before they go
    s.protect("place", w.place);
    s.protect("number", w.number);
    s.protect("dice", w.d);
    std::int64_t step = 0;
    if (auto restored = s.restart()) {
        step = *restored;
        std::cout << "restarted from step " << step << " with " << w.place.size() << " walkers" << std::endl;
    }
    while (step < o.steps) {
        w.step();
        if (++step % o.every == 0) {
            s.checkpoint(step);
            std::cout << "step " << step << std::endl;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(o.delay_us));
    }
    s.close(); // throws if the last checkpoint is not safe
    if (!o.out.empty())
        w.write(o.out);
    std::cout << "done: " << w.place.size() << " walkers, " << w.d.born << " were born" << std::endl;
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(read_arguments(argc, argv));
        return 0;
    } catch (const std::exception &e) {
        std::cerr << "walkers: " << e.what() << "\n";
        return 1;
    }
}
