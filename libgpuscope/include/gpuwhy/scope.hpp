/* libgpuscope for C++11: move-only objects that end a scope, or release a resource, in their destructor.
 *
 *     gs_status train()
 *     {
 *         gpuscope::scope scope;
 *         gpuscope::stream stream;
 *         gpuscope::memory weights;
 *         GS_RETURN_IF_FAILED(scope.open());
 *         GS_RETURN_IF_FAILED(stream.create(scope));
 *         GS_RETURN_IF_FAILED(weights.alloc(scope, 1 << 20));
 *         return gs_fill(weights.get(), 0, weights.bytes(), stream.get());
 *     }                   releases the memory and the stream, then ends the scope
 *
 * This file is a layer on <gpuwhy/scope.h>, whose rules hold. It has no other source.
 *
 * - Functions return a gs_status and throw nothing, so programs may be compiled with -fno-exceptions. The reasons: a
 *   full card is an ordinary result in this library, and a destructor must not throw. gpuscope::require() turns a
 *   status into an exception for programs that prefer them.
 * - Any order of destruction is right. An object whose scope has ended, also by the end of an outer scope, only forgets
 *   its handle, because the scope has released it. Stream-ordered memory that outlives its stream waits for the device
 *   before it is freed.
 * - A destructor cannot return the status of a release. The failure is recorded in the scope; close() and end() return
 *   it. Release objects in a thread that has entered a scope: elsewhere the resource stays in its scope until the end.
 * - A scope that other threads are still inside (GS_BUSY) cannot end: the destructor leaves it open.
 * - One thread at a time may use an object. Different objects of one scope may be used by different threads.
 * - `file` and `line` are for reports: do not pass them. */
#ifndef GPUWHY_SCOPE_HPP
#define GPUWHY_SCOPE_HPP

#include <gpuwhy/scope.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#include <stdexcept>
#include <string>
#define GPUSCOPE_HAS_EXCEPTIONS 1
#endif

#define GPUSCOPE_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define GPUSCOPE_CHECK __attribute__((warn_unused_result))

namespace gpuscope
{

namespace detail
{

/* Whether a scope is still open. All objects that belong to it share one, which may outlive it. */
struct shared {
    std::atomic<gs_scope *> handle;
    std::atomic<long> count;
    shared *parent; /* counted; nullptr: an outermost scope */
};

class state
{
  public:
    state() noexcept : shared_(nullptr)
    {
    }
    state(const state &other) noexcept : shared_(other.shared_)
    {
        if (shared_ != nullptr)
            shared_->count++;
    }
    state(state &&other) noexcept : shared_(other.shared_)
    {
        other.shared_ = nullptr;
    }
    state &operator=(state other) noexcept
    {
        std::swap(shared_, other.shared_);
        return *this;
    }
    ~state()
    {
        while (shared_ != nullptr && --shared_->count == 0) {
            shared *parent = shared_->parent;
            delete shared_;
            shared_ = parent;
        }
    }

    /* Become the state of a new scope. Returns false if there is no memory. */
    bool make(const state &parent) noexcept
    {
        shared *made = new (std::nothrow) shared;
        if (made == nullptr)
            return false;
        made->handle = nullptr;
        made->count = 1;
        made->parent = parent.shared_;
        if (made->parent != nullptr)
            made->parent->count++;
        *this = state(made);
        return true;
    }
    void set(gs_scope *handle) noexcept
    {
        shared_->handle = handle;
    }
    /* The scope; nullptr: it has ended, or an enclosing one has. */
    gs_scope *get() const noexcept
    {
        gs_scope *handle = nullptr;
        for (const shared *at = shared_; at != nullptr; at = at->parent) {
            gs_scope *open = at->handle;
            if (open == nullptr)
                return nullptr;
            if (at == shared_)
                handle = open;
        }
        return handle;
    }

  private:
    explicit state(shared *made) noexcept : shared_(made)
    {
    }
    shared *shared_;
};

/* Whether a stream is still open. The stream and the memory that is freed in its order share one. */
class order
{
  public:
    order() noexcept : shared_(nullptr)
    {
    }
    order(const order &other) noexcept : shared_(other.shared_)
    {
        if (shared_ != nullptr)
            shared_->count++;
    }
    order &operator=(order other) noexcept
    {
        std::swap(shared_, other.shared_);
        return *this;
    }
    ~order()
    {
        if (shared_ != nullptr && --shared_->count == 0)
            delete shared_;
    }

    /* Become the order of a new stream, which set() names. Returns false if there is no memory. */
    bool make(const state &owner) noexcept
    {
        shared *made = new (std::nothrow) shared;
        if (made == nullptr)
            return false;
        made->owner = owner;
        made->stream = nullptr;
        made->count = 1;
        *this = order(made);
        return true;
    }
    void set(CUstream stream) noexcept
    {
        shared_->stream = stream;
    }
    gs_status close(gs_scope *scope, CUstream stream, const char *file, int line) noexcept
    {
        std::lock_guard<std::mutex> guard(shared_->lock);
        shared_->stream = nullptr;
        return gs_stream_close_at(scope, stream, file, line);
    }
    /* Free memory in the order of the stream. If the stream is closed, wait for all work instead. */
    gs_status free(gs_scope *scope, CUdeviceptr address, const char *file, int line) const noexcept
    {
        std::lock_guard<std::mutex> guard(shared_->lock);
        CUstream stream = shared_->owner.get() == nullptr ? nullptr : shared_->stream;
        gs_status status = stream == nullptr ? gs_wait_all_at(file, line) : GS_OK;
        return status == GS_OK ? gs_free_ordered_at(scope, address, stream, file, line) : status;
    }

  private:
    struct shared {
        std::mutex lock;
        state owner;     /* of the stream */
        CUstream stream; /* nullptr: closed */
        std::atomic<long> count;
    };
    explicit order(shared *made) noexcept : shared_(made)
    {
    }
    shared *shared_;
};

} // namespace detail

/* The report of a scope's end. */
class report
{
  public:
    report() noexcept : report_(nullptr)
    {
    }
    report(report &&other) noexcept : report_(other.report_)
    {
        other.report_ = nullptr;
    }
    report &operator=(report &&other) noexcept
    {
        std::swap(report_, other.report_);
        return *this;
    }
    ~report()
    {
        gs_report_free(report_);
    }

    explicit operator bool() const noexcept
    {
        return report_ != nullptr;
    }
    const gs_report *get() const noexcept
    {
        return report_;
    }
    const gs_report *operator->() const noexcept
    {
        return report_;
    }
    void print(FILE *out) const
    {
        gs_report_print(report_, out);
    }

  private:
    friend class scope;
    gs_report *report_;
};

class scope
{
  public:
    scope() noexcept
    {
    }
    scope(scope &&other) noexcept : state_(std::move(other.state_))
    {
    }
    scope &operator=(scope &&other) noexcept
    {
        if (this != &other) {
            end();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~scope()
    {
        end();
    }

    /* Open an outermost scope: gs_open(). GS_MISUSE: this object has an open scope. */
    gs_status open(const gs_options &options = gs_options(), gs_failure *ret_failure = nullptr,
                   GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        gs_scope *handle = nullptr;
        if (get() != nullptr)
            return GS_MISUSE;
        if (!state_.make(detail::state()))
            return GS_NO_HOST_MEMORY;
        gs_status status = gs_open_at(&options, &handle, ret_failure, file, line);
        return finish(status, handle);
    }
    /* Begin a scope inside another one: gs_begin(). GS_MISUSE: this object has an open scope, or the parent has none.
     */
    gs_status begin(const scope &parent, const gs_options &options = gs_options(),
                    GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        gs_scope *handle = nullptr, *outer = parent.get();
        if (get() != nullptr || outer == nullptr)
            return GS_MISUSE;
        if (!state_.make(parent.state_))
            return GS_NO_HOST_MEMORY;
        gs_status status = gs_begin_at(outer, &options, &handle, file, line);
        return finish(status, handle);
    }
    /* End the scope: gs_end(). GS_OK if there is none. After GS_BUSY and GS_NO_HOST_MEMORY it is still open. */
    gs_status end(report *ret_report = nullptr, GPUSCOPE_PLACE) noexcept
    {
        gs_scope *handle = get();
        report own;
        if (handle == nullptr)
            return GS_OK;
        gs_status status = gs_end_at(handle, &own.report_, file, line);
        if (own)
            state_.set(nullptr);
        if (own && ret_report != nullptr)
            *ret_report = std::move(own);
        return status;
    }

    /* The scope for functions of <gpuwhy/scope.h>; nullptr: not open. Do not pass it to gs_end(). */
    gs_scope *get() const noexcept
    {
        return state_.get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }

  private:
    template <typename kind> friend class resource;

    gs_status finish(gs_status status, gs_scope *handle) noexcept
    {
        if (status == GS_OK)
            state_.set(handle);
        else
            state_ = detail::state();
        return status;
    }
    detail::state state_;
};

/* A thread's stay in a scope that another thread has opened: gs_enter() and gs_leave(). Destroy it in the same thread.
 */
class entry
{
  public:
    entry() noexcept : scope_(nullptr)
    {
    }
    entry(const entry &) = delete;
    entry &operator=(const entry &) = delete;
    ~entry()
    {
        leave();
    }
    gs_status enter(const scope &to, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        if (scope_ != nullptr)
            return GS_MISUSE;
        gs_status status = gs_enter_at(to.get(), file, line);
        if (status == GS_OK)
            scope_ = to.get();
        return status;
    }
    /* The scope cannot have ended, because this thread is inside. */
    gs_status leave(GPUSCOPE_PLACE) noexcept
    {
        gs_scope *from = scope_;
        scope_ = nullptr;
        return from == nullptr ? GS_OK : gs_leave_at(from, file, line);
    }

  private:
    gs_scope *scope_;
};

/* Base of the resources. `kind` has the type of the handle and the call that releases it. */
template <typename kind> class resource
{
  public:
    using handle_type = typename kind::handle_type;

    resource() noexcept : handle_()
    {
    }
    resource(resource &&other) noexcept : state_(std::move(other.state_)), handle_(other.handle_)
    {
        other.handle_ = handle_type();
    }
    resource &operator=(resource &&other) noexcept
    {
        if (this != &other) {
            close();
            state_ = std::move(other.state_);
            handle_ = other.handle_;
            other.handle_ = handle_type();
        }
        return *this;
    }
    ~resource()
    {
        close();
    }

    /* Release the resource now. GS_OK if there is none, or if its scope has ended. The object is empty afterwards. */
    gs_status close(GPUSCOPE_PLACE) noexcept
    {
        gs_scope *owner = state_.get();
        handle_type handle = handle_;
        state_ = detail::state();
        handle_ = handle_type();
        return owner == nullptr || handle == handle_type() ? GS_OK : kind::close(owner, handle, file, line);
    }
    handle_type get() const noexcept
    {
        return state_.get() == nullptr ? handle_type() : handle_;
    }
    explicit operator bool() const noexcept
    {
        return state_.get() != nullptr && handle_ != handle_type();
    }

  protected:
    const handle_type &held() const noexcept
    {
        return handle_;
    }
    handle_type &held() noexcept
    {
        return handle_;
    }
    static const detail::state &state_of(const scope &owner) noexcept
    {
        return owner.state_;
    }
    /* Store a new handle, if `status` is GS_OK. */
    gs_status hold(gs_status status, const scope &owner, handle_type handle) noexcept
    {
        if (status == GS_OK) {
            state_ = owner.state_;
            handle_ = handle;
        }
        return status;
    }

  private:
    detail::state state_;
    handle_type handle_;
};

namespace detail
{

struct memory_kind {
    using handle_type = CUdeviceptr;
    static gs_status close(gs_scope *scope, handle_type handle, const char *file, int line) noexcept
    {
        return gs_free_at(scope, handle, file, line);
    }
};
struct pinned_kind {
    using handle_type = void *;
    static gs_status close(gs_scope *scope, handle_type handle, const char *file, int line) noexcept
    {
        return gs_free_host_at(scope, handle, file, line);
    }
};
struct stream_handle {
    CUstream stream;
    order in;
    stream_handle() noexcept : stream(nullptr)
    {
    }
    bool operator==(const stream_handle &other) const noexcept
    {
        return stream == other.stream;
    }
    bool operator!=(const stream_handle &other) const noexcept
    {
        return stream != other.stream;
    }
};
struct stream_kind {
    using handle_type = stream_handle;
    static gs_status close(gs_scope *scope, handle_type &handle, const char *file, int line) noexcept
    {
        return handle.in.close(scope, handle.stream, file, line);
    }
};
struct ordered_handle {
    CUdeviceptr address;
    order in;
    ordered_handle() noexcept : address(0)
    {
    }
    bool operator==(const ordered_handle &other) const noexcept
    {
        return address == other.address;
    }
    bool operator!=(const ordered_handle &other) const noexcept
    {
        return address != other.address;
    }
};
struct ordered_kind {
    using handle_type = ordered_handle;
    static gs_status close(gs_scope *scope, const handle_type &handle, const char *file, int line) noexcept
    {
        return handle.in.free(scope, handle.address, file, line);
    }
};
struct event_kind {
    using handle_type = CUevent;
    static gs_status close(gs_scope *scope, handle_type handle, const char *file, int line) noexcept
    {
        return gs_event_close_at(scope, handle, file, line);
    }
};
struct module_kind {
    using handle_type = CUmodule;
    static gs_status close(gs_scope *scope, handle_type handle, const char *file, int line) noexcept
    {
        return gs_module_close_at(scope, handle, file, line);
    }
};

} // namespace detail

/* Each creating function first releases what the object has. If it fails, the object is empty. */

/* Device memory: gs_alloc(). */
class memory : public resource<detail::memory_kind>
{
  public:
    memory() noexcept : bytes_(0)
    {
    }
    gs_status alloc(const scope &owner, size_t bytes, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        CUdeviceptr address = 0;
        close(file, line);
        bytes_ = bytes;
        gs_status status = gs_alloc_at(owner.get(), bytes, &address, file, line);
        return hold(status, owner, address);
    }
    size_t bytes() const noexcept
    {
        return *this ? bytes_ : 0;
    }
    /* The address as a pointer for kernels and for the CUDA runtime. The host cannot dereference it. */
    template <typename type> type *as() const noexcept
    {
        return reinterpret_cast<type *>(static_cast<uintptr_t>(get()));
    }

  private:
    size_t bytes_;
};

/* Page-locked host memory: gs_alloc_pinned(). */
class pinned_memory : public resource<detail::pinned_kind>
{
  public:
    pinned_memory() noexcept : bytes_(0)
    {
    }
    gs_status alloc(const scope &owner, size_t bytes, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        void *address = nullptr;
        close(file, line);
        bytes_ = bytes;
        gs_status status = gs_alloc_pinned_at(owner.get(), bytes, &address, file, line);
        return hold(status, owner, address);
    }
    size_t bytes() const noexcept
    {
        return *this ? bytes_ : 0;
    }
    template <typename type> type *as() const noexcept
    {
        return static_cast<type *>(get());
    }

  private:
    size_t bytes_;
};

/* A stream that does not wait for the default stream: gs_stream(). */
class stream : public resource<detail::stream_kind>
{
  public:
    gs_status create(const scope &owner, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        handle_type handle;
        close(file, line);
        if (!handle.in.make(state_of(owner)))
            return GS_NO_HOST_MEMORY;
        gs_status status = gs_stream_at(owner.get(), &handle.stream, file, line);
        handle.in.set(handle.stream);
        return hold(status, owner, handle);
    }
    CUstream get() const noexcept
    {
        return *this ? held().stream : nullptr;
    }
    gs_status wait(GPUSCOPE_PLACE) const noexcept GPUSCOPE_CHECK
    {
        return gs_wait_at(get(), file, line);
    }

  private:
    friend class ordered_memory;
};

/* Stream-ordered memory: gs_alloc_ordered(). It is freed in the order of the stream on which it was allocated. If that
 * stream is closed by then, the object waits for the device first. */
class ordered_memory : public resource<detail::ordered_kind>
{
  public:
    ordered_memory() noexcept : bytes_(0)
    {
    }
    /* GS_MISUSE: `on` is empty. */
    gs_status alloc(const scope &owner, size_t bytes, const stream &on, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        handle_type handle;
        close(file, line);
        if (!on)
            return GS_MISUSE;
        bytes_ = bytes;
        handle.in = on.held().in;
        gs_status status = gs_alloc_ordered_at(owner.get(), bytes, on.get(), &handle.address, file, line);
        return hold(status, owner, handle);
    }
    /* Free the memory now, in the order of another stream: gs_free_ordered(). GS_MISUSE: `on` is empty; the object then
     * keeps the memory. */
    gs_status free(const stream &on, GPUSCOPE_PLACE) noexcept
    {
        if (!on)
            return GS_MISUSE;
        held().in = on.held().in;
        return close(file, line);
    }
    CUdeviceptr get() const noexcept
    {
        return *this ? held().address : 0;
    }
    size_t bytes() const noexcept
    {
        return *this ? bytes_ : 0;
    }
    /* The address as a pointer for kernels and for the CUDA runtime. The host cannot dereference it. */
    template <typename type> type *as() const noexcept
    {
        return reinterpret_cast<type *>(static_cast<uintptr_t>(get()));
    }

  private:
    size_t bytes_;
};

/* An event: gs_event(). */
class event : public resource<detail::event_kind>
{
  public:
    gs_status create(const scope &owner, bool timing = false, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        CUevent handle = nullptr;
        close(file, line);
        gs_status status = gs_event_at(owner.get(), timing ? 1 : 0, &handle, file, line);
        return hold(status, owner, handle);
    }
    gs_status record(const stream &on, GPUSCOPE_PLACE) const noexcept GPUSCOPE_CHECK
    {
        return gs_record_at(get(), on.get(), file, line);
    }
    gs_status wait(GPUSCOPE_PLACE) const noexcept GPUSCOPE_CHECK
    {
        return gs_wait_event_at(get(), file, line);
    }
};

/* A module with kernels: gs_module() and gs_kernel(). */
class module : public resource<detail::module_kind>
{
  public:
    gs_status load(const scope &owner, const void *image, GPUSCOPE_PLACE) noexcept GPUSCOPE_CHECK
    {
        CUmodule handle = nullptr;
        close(file, line);
        gs_status status = gs_module_at(owner.get(), image, &handle, file, line);
        return hold(status, owner, handle);
    }
    gs_status kernel(const scope &in, const char *name, CUfunction *ret, GPUSCOPE_PLACE) const noexcept GPUSCOPE_CHECK
    {
        return gs_kernel_at(in.get(), get(), name, ret, file, line);
    }
};

#ifdef GPUSCOPE_HAS_EXCEPTIONS
/* The exception of require(). what() has the text of the status and of the scope's first failure. */
class error : public std::runtime_error
{
  public:
    error(gs_status status, const std::string &text) : std::runtime_error(text), status_(status)
    {
    }
    gs_status status() const noexcept
    {
        return status_;
    }

  private:
    gs_status status_;
};

/* Throw gpuscope::error unless the status is GS_OK: require(memory.alloc(scope, bytes), scope). */
inline void require(gs_status status, const scope &in)
{
    gs_failure failure;
    char text[1024];
    if (status == GS_OK)
        return;
    std::string what = gs_status_text(status);
    if (gs_first_failure(in.get(), &failure) != 0)
        what += std::string(": ") + gs_failure_text(&failure, text, sizeof text);
    throw error(status, what);
}
#endif

} // namespace gpuscope

#undef GPUSCOPE_PLACE
#undef GPUSCOPE_CHECK

#endif
