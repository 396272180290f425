// Varve for C++17: one header over varve.h, which explains the calls.
//
//     std::vector<double> t(n);
//     varve::session s("ck", "heat");            // a folder, and a name; closed at the end of the block
//     s.protect("temperature", t);               // a vector may grow, shrink and move
//     std::int64_t step = s.restart().value_or(0);
//     while (step < last) {
//         compute(t);
//         if (++step % 100 == 0)
//             s.checkpoint(step);
//     }
//     s.close();                                 // throws if the last checkpoint is not safe
//
// Exceptions or codes: a call throws varve::failure, unless its last argument is the address of a varve_error. Then it
// returns the code, 0 or negative, and the error has code, rank and text.
//
// Declare a session after the data it protects: then it ends first. A session that ends by itself, at the end of a
// block or by an exception, waits until its last checkpoint is stored; whether it is, only close tells. With several
// ranks (open_mpi, open_env) closing is collective, so a session that an exception ends on one rank is left alone: end
// that process, with MPI_Abort for example.
//
// Link with libvarve; there is no library for C++. With varve_mpi.h or varve_env.h, included before or after,
// there are varve::open_mpi and varve::open_env.
#ifndef VARVE_HPP
#define VARVE_HPP

#include <cerrno>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <varve/varve.h>

namespace varve {

class failure : public std::runtime_error {
  public:
    explicit failure(const varve_error &error)
        : std::runtime_error(error.rank < 0
                                 ? std::string(error.text)
                                 : std::string(error.text) + " (on rank " + std::to_string(error.rank) + ")"),
          code_(error.code), rank_(error.rank) {
    }
    int code() const noexcept {
        return code_;
    } // VARVE_BUSY, VARVE_MISMATCH, -ENOSPC, ...
    int rank() const noexcept {
        return rank_;
    } // where it happened, or -1

  private:
    int code_, rank_;
};

// What a T is in the store. Structs, and what C does not have, are bytes.
template <class T> constexpr int type_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>)
        return VARVE_F32;
    else if constexpr (std::is_same_v<U, double>)
        return VARVE_F64;
    else if constexpr (std::is_same_v<U, std::complex<float>>)
        return VARVE_C64;
    else if constexpr (std::is_same_v<U, std::complex<double>>)
        return VARVE_C128;
    else if constexpr (std::is_enum_v<U> && !std::is_same_v<U, std::byte>)
        return type_of<std::underlying_type_t<U>>();
    else if constexpr (std::is_integral_v<U> && sizeof(U) <= 8)
        return (sizeof(U) == 1   ? VARVE_I8
                : sizeof(U) == 2 ? VARVE_I16
                : sizeof(U) == 4 ? VARVE_I32
                                 : VARVE_I64) +
               (std::is_signed_v<U> ? 0 : 1);
    else
        return VARVE_BYTES;
}

namespace detail {

static_assert(VARVE_U8 == VARVE_I8 + 1 && VARVE_U16 == VARVE_I16 + 1 && VARVE_U32 == VARVE_I32 + 1 &&
              VARVE_U64 == VARVE_I64 + 1);

template <class T> constexpr void check_element() {
    static_assert(!std::is_pointer_v<T>, "an address means nothing in the next run: protect what it points to");
    static_assert(!std::is_const_v<T>, "a restart has to write it");
    static_assert(std::is_trivially_copyable_v<T>, "only what may be copied byte by byte can be protected");
}

template <class T> varve_array describe(std::size_t count) {
    varve_array array{};
    array.size = sizeof array;
    array.type = type_of<T>();
    array.dims = 1;
    array.dim[0].local = count;
    if (array.type == VARVE_BYTES && sizeof(T) > 1) {
        array.dims = 2;
        array.dim[1].local = sizeof(T);
    }
    return array;
}

template <class C, class = void> struct has_elements : std::false_type {};
template <class C>
struct has_elements<C, std::void_t<decltype(std::declval<C &>().data()), decltype(std::declval<C &>().size())>>
    : std::true_type {};
template <class C, class = void> struct can_resize : std::false_type {};
template <class C>
struct can_resize<C, std::void_t<decltype(std::declval<C &>().resize(std::size_t{}))>> : has_elements<C> {};
template <class C> using element_of = std::remove_pointer_t<decltype(std::declval<C &>().data())>;

// A container that may grow and move: asked where it is by each checkpoint, and resized by a restart.
template <class C> int tell(void *container, varve_memory *out) {
    C &c = *static_cast<C *>(container);
    out->ptr = c.data();
    out->bytes = c.size() * sizeof(element_of<C>);
    out->array = describe<element_of<C>>(c.size());
    return 0;
}
template <class C> void *resize(void *container, std::uint64_t bytes) {
    C &c = *static_cast<C *>(container);
    c.resize(static_cast<std::size_t>(bytes / sizeof(element_of<C>)));
    return c.data();
}

struct region {
    void *container = nullptr; // NULL: memory that stays where it is
    varve_memory_fn tell = nullptr;
    void *(*resize)(void *, std::uint64_t) = nullptr;
    int type = VARVE_BYTES;
    std::size_t element = 1;
    const void *block = nullptr; // of varve::allocator
};

struct state {
    varve_session *handle = nullptr;
    bool is_shared = false;
    int exceptions = std::uncaught_exceptions();
    std::map<std::string, std::unique_ptr<region>> regions; // the library keeps the address of a region

    state() = default;
    state(const state &) = delete;
    state &operator=(const state &) = delete;
    ~state() {
        if (is_shared && std::uncaught_exceptions() > exceptions)
            varve_release(handle); // the memory may go; to close, all ranks would have to come
        else
            varve_close(handle);
    }
};

inline int tell_region(void *arg, varve_memory *out) {
    const region &r = *static_cast<region *>(arg);
    return r.tell(r.container, out);
}

// No exception may pass through C. A vector of other elements than are stored would come back as nonsense.
inline void *give(void *arg, const varve_region_info *info) {
    state &self = *static_cast<state *>(arg);
    try {
        auto found = self.regions.find(info->name);
        if (found == self.regions.end())
            return VARVE_NOT_WANTED;
        region &r = *found->second;
        bool is_same = info->array->dims == 0 || info->array->type == r.type;
        if (!r.container || !is_same || info->bytes % r.element != 0)
            return VARVE_NOT_WANTED; // what is protected does not fit: VARVE_MISMATCH, on all ranks
        return r.resize(r.container, info->bytes);
    } catch (...) {
        return nullptr;
    }
}
inline void take_back(void *, const char *, void *) {
} // it stays the container's

struct named_memory {
    std::weak_ptr<state> owner; // gone when the session is closed, and the memory with it
    std::string name;
};

} // namespace detail

// Memory that is protected by its name from the start (varve_alloc), for one std::vector:
//
//     std::vector<double, varve::allocator<double>> t(n, s.memory<double>("temperature"));
//
// The whole capacity is stored, and not the length. A restart fills it where it is: construct it with its full size in
// each run, and do not reserve and resize. The name stays with the memory when vectors are moved or swapped; what was
// moved from must not be filled again. A copy, and a vector of an allocator without a name, has memory as ever. The
// memory goes when the session is closed; the vector may be destroyed later. Containers of many blocks, such as
// std::map, do not compile.
template <class T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    allocator() noexcept = default;
    allocator(const allocator &) noexcept = default; // and no move: what was moved from must be as it was
    allocator &operator=(const allocator &) noexcept = default;
    explicit allocator(std::shared_ptr<const detail::named_memory> memory) noexcept : memory_(std::move(memory)) {
        detail::check_element<T>();
    }

    T *allocate(std::size_t count) {
        if (!memory_)
            return std::allocator<T>().allocate(count);
        if (count > SIZE_MAX / sizeof(T))
            throw std::bad_array_new_length();
        auto owner = memory_->owner.lock();
        auto made = std::make_unique<detail::region>();
        varve_session *handle = owner ? owner->handle : nullptr;
        void *block = handle ? varve_alloc(handle, memory_->name.c_str(), count * sizeof(T)) : nullptr;
        if (!block)
            throw failure(*varve_session_error(handle));
        varve_array array = detail::describe<T>(count);
        varve_describe(handle, memory_->name.c_str(), &array);
        made->type = array.type;
        made->block = block;
        owner->regions[memory_->name] = std::move(made);
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t count) noexcept {
        if (!memory_)
            return std::allocator<T>().deallocate(block, count);
        auto owner = memory_->owner.lock();
        if (!owner || !owner->handle)
            return;
        auto found = owner->regions.find(memory_->name); // a vector that grows has two blocks for a while
        if (found != owner->regions.end() && found->second->block == block)
            owner->regions.erase(found);
        varve_free(owner->handle, block);
    }
    allocator select_on_container_copy_construction() const noexcept {
        return {};
    }
    friend bool operator==(const allocator &a, const allocator &b) noexcept {
        return a.memory_ == b.memory_;
    }
    friend bool operator!=(const allocator &a, const allocator &b) noexcept {
        return a.memory_ != b.memory_;
    }

  private:
    std::shared_ptr<const detail::named_memory> memory_; // NULL: it has no name
};

// A session: may be moved, not copied. One thread at a time uses it.
class session {
  public:
    session() noexcept = default; // not open: calls fail with -EINVAL
    session(session &&) noexcept = default;
    session &operator=(session &&) noexcept = default;
    session(const std::string &store, const std::string &name, const std::string &settings = {},
            varve_error *error = nullptr) {
        open(
            false, error,
            [&](const varve_options &options, varve_session **out, varve_error *why) {
                return varve_open(store.c_str(), name.c_str(), &options, out, why);
            },
            settings);
    }
    // Opened by another function of the library, for several ranks: fn(options, out, error) returns its code.
    template <class Open> static session opened_by(Open fn, const std::string &settings, varve_error *error = nullptr) {
        session made;
        made.open(true, error, fn, settings);
        return made;
    }

    explicit operator bool() const noexcept {
        return handle() != nullptr;
    }
    varve_session *handle() const noexcept {
        return state_ ? state_->handle : nullptr;
    } // for the calls of varve.h
    const varve_error &last_error() const noexcept {
        return *varve_session_error(handle());
    }

    // Collective. Waits for the last checkpoint, and tells what became of it. The session is closed in any case.
    int close(varve_error *error = nullptr) {
        if (!handle())
            return 0;
        varve_error why{};
        int rc = varve_wait(handle()); // varve_close would tell the code, but no text
        if (rc != 0)
            why = last_error();
        int closed = varve_close(std::exchange(state_->handle, nullptr));
        state_.reset();
        if (rc == 0 && closed != 0) {
            why.rank = -1;
            std::snprintf(why.text, sizeof why.text, "%s", varve_error_text(closed));
        }
        return finish(rc != 0 ? rc : closed, why, error);
    }

    // ---- what is protected ----

    // A container with data() and size(). One that can be resized (std::vector, std::string) is asked where it is by
    // each checkpoint, and a restart resizes it; it must live until it is unprotected, or the session ends. Others
    // (std::array, std::span) stay where they are. Or a single object that can be copied byte by byte.
    template <class T> int protect(const std::string &name, T &what, varve_error *error = nullptr) {
        if constexpr (detail::can_resize<T>::value)
            return protect_moving(name, what, error);
        else if constexpr (detail::has_elements<T>::value)
            return protect(name, what.data(), what.size(), error);
        else
            return protect(name, &what, 1, error);
    }
    template <class T, std::size_t N> int protect(const std::string &name, T (&what)[N], varve_error *error = nullptr) {
        return protect(name, what, N, error);
    }
    // What may be written through a view that is a temporary.
    template <class T, class = std::enable_if_t<detail::has_elements<T>::value && !detail::can_resize<T>::value>>
    int protect(const std::string &name, const T &view, varve_error *error = nullptr) {
        return protect(name, view.data(), view.size(), error);
    }
    template <class T>
    int protect(const std::string &name, T *elements, std::size_t count, varve_error *error = nullptr) {
        detail::check_element<T>();
        varve_array array = detail::describe<T>(count);
        return place(name, elements, array, error);
    }
    // A block of a larger array, the slowest dimension first: {{rows, first_row, all_rows}, {columns, 0, columns}}.
    template <class T>
    int protect(const std::string &name, T *elements, std::initializer_list<varve_dim> dims,
                varve_error *error = nullptr) {
        detail::check_element<T>();
        static_assert(type_of<T>() != VARVE_BYTES || sizeof(T) == 1, "elements of a type of varve.h");
        varve_array array = detail::describe<T>(0);
        array.dims = static_cast<unsigned>(dims.size() <= VARVE_DIMS_MAX ? dims.size() : 0); // 0 is refused
        for (unsigned i = 0; i < array.dims; i++)
            array.dim[i] = dims.begin()[i];
        return place(name, elements, array, error);
    }
    // For one std::vector: see varve::allocator.
    template <class T> allocator<T> memory(const std::string &name) const {
        return allocator<T>(std::make_shared<const detail::named_memory>(detail::named_memory{state_, name}));
    }
    int unprotect(const std::string &name, varve_error *error = nullptr) {
        int rc = varve_unprotect(handle(), name.c_str());
        if (rc == 0)
            state_->regions.erase(name);
        return result(rc, error);
    }
    int distribute(const std::string &name, varve_distribution how, varve_error *error = nullptr) {
        return result(varve_distribute(handle(), name.c_str(), how), error);
    }
    int attribute(const std::string &name, const std::string &value, varve_error *error = nullptr) {
        return result(varve_attribute(handle(), name.c_str(), value.c_str()), error);
    }

    // ---- saving ----

    int checkpoint(std::int64_t version, varve_error *error = nullptr) {
        return result(varve_checkpoint(handle(), version), error);
    }
    int wait(varve_error *error = nullptr) {
        return result(varve_wait(handle()), error);
    }
    int release(varve_error *error = nullptr) {
        return result(varve_release(handle()), error);
    }
    bool test(varve_error *error = nullptr) {
        return result(varve_test(handle()), error) > 0;
    }
    bool need(varve_error *error = nullptr) {
        return result(varve_need(handle()), error) > 0;
    }
    bool should_exit(varve_error *error = nullptr) {
        return result(varve_should_exit(handle()), error) > 0;
    }
    double time_left() const {
        return varve_time_left(handle());
    }

    // ---- coming back ----

    // Collective. Fills what is protected, and resizes containers to what is stored. The version; nothing on a first
    // run, or when the error has a code. VARVE_MISMATCH: what is stored has another type, size or shape than what is
    // protected; nothing was written, and the text names the region.
    std::optional<std::int64_t> restart(std::int64_t version = VARVE_LATEST, varve_error *error = nullptr) {
        std::int64_t restored = -1;
        varve_allocator allocator{};
        allocator.size = sizeof allocator;
        allocator.alloc = detail::give;
        allocator.release = detail::take_back;
        int rc = varve_restart_alloc(handle(), version, &allocator, state_.get(), &restored);
        varve_error why = rc != 0 ? last_error() : varve_error{};
        finish(rc == VARVE_NO_CHECKPOINT ? 0 : rc, why, error);
        return rc == 0 ? std::optional(restored) : std::nullopt;
    }
    int reject(std::int64_t version, varve_error *error = nullptr) {
        return result(varve_reject(handle(), version), error);
    }

  private:
    std::shared_ptr<detail::state> state_; // allocators only look whether it is still there

    static int finish(int rc, varve_error &why, varve_error *error) {
        why.code = rc < 0 ? rc : 0;
        if (rc < 0 && !error)
            throw failure(why);
        if (error)
            *error = why;
        return rc;
    }
    int result(int rc, varve_error *error) const {
        varve_error why = rc < 0 ? last_error() : varve_error{};
        return finish(rc, why, error);
    }

    template <class Open> void open(bool is_shared, varve_error *error, Open fn, const std::string &settings) {
        auto made = std::make_shared<detail::state>();
        varve_options options = VARVE_OPTIONS_INIT;
        varve_error why{};
        options.settings = settings.c_str();
        int rc = fn(static_cast<const varve_options &>(options), &made->handle, &why);
        made->is_shared = is_shared;
        if (rc == 0)
            state_ = std::move(made);
        finish(rc, why, error);
    }

    int place(const std::string &name, void *elements, const varve_array &array, varve_error *error) {
        auto made = std::make_unique<detail::region>();
        made->type = array.type;
        int rc = varve_protect_array(handle(), name.c_str(), elements, &array);
        if (rc == 0)
            state_->regions[name] = std::move(made);
        return result(rc, error);
    }

    template <class C> int protect_moving(const std::string &name, C &container, varve_error *error) {
        using T = detail::element_of<C>;
        detail::check_element<T>();
        auto made = std::make_unique<detail::region>();
        made->container = &container;
        made->tell = detail::tell<C>;
        made->resize = detail::resize<C>;
        made->type = type_of<T>();
        made->element = sizeof(T);
        auto place = state_->regions.try_emplace(name); // before the library knows the address: this may throw
        int rc = varve_protect_moving(handle(), name.c_str(), detail::tell_region, made.get());
        if (rc == 0)
            place.first->second = std::move(made);
        else if (place.second)
            state_->regions.erase(place.first);
        return result(rc, error);
    }
};

} // namespace varve
#endif

#if defined(VARVE_MPI_H) && !defined(VARVE_HPP_MPI)
#define VARVE_HPP_MPI
namespace varve {
// Collective.
inline session open_mpi(MPI_Comm comm, const std::string &store, const std::string &name,
                        const std::string &settings = {}, varve_error *error = nullptr) {
    return session::opened_by(
        [&](const varve_options &options, varve_session **out, varve_error *why) {
            return varve_open_mpi(comm, store.c_str(), name.c_str(), &options, out, why);
        },
        settings, error);
}
} // namespace varve
#endif

#if defined(VARVE_ENV_H) && !defined(VARVE_HPP_ENV)
#define VARVE_HPP_ENV
namespace varve {
// Collective.
inline session open_env(const std::string &store, const std::string &name, const std::string &settings = {},
                        varve_error *error = nullptr) {
    return session::opened_by(
        [&](const varve_options &options, varve_session **out, varve_error *why) {
            return varve_open_env(store.c_str(), name.c_str(), &options, out, why);
        },
        settings, error);
}
} // namespace varve
#endif
