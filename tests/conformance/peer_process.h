// Starts a program that plays a peer and sees that it ends, with all that it started.
#ifndef SHOAL_TESTS_CONFORMANCE_PEER_PROCESS_H_
#define SHOAL_TESTS_CONFORMANCE_PEER_PROCESS_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace shoal {

class PeerProcess {
 public:
  // The program's path and its arguments. With CLONE_NEWPID, which takes root, it sees no process but its own.
  explicit PeerProcess(std::vector<std::string> command, int namespaces = 0) {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    process_ =
        namespaces == 0 ? fork() : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD | namespaces, nullptr, 0, 0, 0));
    EXPECT_GE(process_, 0);
    if (process_ != 0) return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (namespaces == 0 && getppid() != parent) _exit(1);
    // Our sockets: a copy of one in the child would keep its connection alive.
    close_range(3, ~0u, 0);
    execv(arguments[0], arguments.data());
    _exit(1);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    if (process_ < 0) return;
    // What it forked is in its group too.
    kill(-process_, SIGKILL);
    Wait();
  }

  void Send(int signal) const { EXPECT_EQ(kill(process_, signal), 0); }
  // Kills it alone.
  void Kill() {
    Send(SIGKILL);
    Wait();
  }
  // Its exit code; nullopt: it runs, or a signal has ended it.
  std::optional<int> ExitCode() {
    int status = 0;
    if (waited_ || waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
    waited_ = true;
    return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  }
  bool IsStopped() const {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED | WNOHANG) == process_ && WIFSTOPPED(status);
  }

 private:
  void Wait() {
    if (!waited_) waitpid(process_, nullptr, 0);
    waited_ = true;
  }

  pid_t process_ = 0;
  bool waited_ = false;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_PEER_PROCESS_H_
