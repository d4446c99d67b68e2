// A C++ program for test_poke.py: threads wait for work that comes when a file appears.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

namespace crew
{

class Queue
{
  public:
    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return open_; });
    }

    void open()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

} // namespace crew

int main(int, char **argv)
{
    crew::Queue queue;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&queue] { queue.wait(); });
    while (access(argv[1], F_OK) != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    queue.open();
    for (auto &thread : threads)
        thread.join();
    std::puts("done");
}
