// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// grace is the time from SIGTERM to SIGKILL.
const grace = 20 * time.Second

// A Process is a child process whose output goes to a file, and which is terminated when this process exits or is killed.
type Process struct {
	Name string
	Log  string // path of the file with its output

	cmd  *exec.Cmd
	done chan struct{}
	err  error // exit error; read after done is closed
}

// A Command describes a process to start.
type Command struct {
	Name string
	Path string
	Args []string
	Dir  string   // working directory; "" is that of this process
	Env  []string // in addition to that of this process
	Log  string   // path of the file to which its output is appended
}

// Start starts a process.
func Start(c Command) (*Process, error) {
	out, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = dieWithParent()
	p := &Process{Name: c.Name, Log: c.Log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel signals the child when the thread that forked it ends, so this thread is kept until the child exits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns the exit error of the process; nil while it runs.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.err
}

// Stop sends SIGTERM and waits until the process has exited. If it does not exit in time, Stop kills it and returns an error.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s: still running %v after SIGTERM, killed", p.Name, grace)
	}
}

// Kill sends SIGKILL and waits until the process has exited.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has exited already
	<-p.done
}

// Suspend stops the process with SIGSTOP, as if its machine hung.
func (p *Process) Suspend() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a suspended process.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// Tail returns the last lines of the process's output.
func (p *Process) Tail(lines int) string { return tail(p.Log, lines) }

func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimRight(b, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
