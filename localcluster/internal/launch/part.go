// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Part is one process of the cluster.
type Part struct {
	Name string
	Log  string // path of the file with its output

	command []string
	ready   func(ctx context.Context) error // returns nil when the part is ready; polled until then
	grace   time.Duration                   // from SIGTERM to SIGKILL
	crashed chan<- error

	calls sync.Mutex // one Start or Stop at a time

	mu       sync.Mutex
	process  *os.Process
	ended    chan struct{}
	stopping bool
}

// A State describes a part for the control API.
type State struct {
	Name  string `json:"name"`
	State string `json:"state"` // running or stopped
	PID   int    `json:"pid,omitempty"`
	Log   string `json:"log"`
}

// State returns the state of the part.
func (p *Part) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Name: p.Name, State: "stopped", Log: p.Log}
	if p.process != nil {
		s.State = "running"
		s.PID = p.process.Pid
	}
	return s
}

// Start starts the process. It does nothing if the process runs.
func (p *Part) Start() error {
	p.calls.Lock()
	defer p.calls.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(p.command[0], p.command[1:]...)
	c.Stdout = log
	c.Stderr = log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := spawn(c); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.process = c.Process
	p.ended = make(chan struct{})
	p.stopping = false
	go p.watch(c, p.ended)
	return nil
}

func (p *Part) watch(c *exec.Cmd, ended chan<- struct{}) {
	err := c.Wait()
	p.mu.Lock()
	p.process = nil
	stopped := p.stopping
	p.mu.Unlock()
	close(ended)
	if !stopped {
		p.crashed <- crash(p.Name, err, string(tail(p.Log, 2000)))
	}
}

// Ready waits until the part is ready.
func (p *Part) Ready(ctx context.Context) error {
	if p.ready == nil {
		return nil
	}
	return wait(ctx, p.Name, p.ready)
}

// Stop stops the process and waits until it has exited. It does nothing if the process does not run.
func (p *Part) Stop() {
	p.calls.Lock()
	defer p.calls.Unlock()
	p.mu.Lock()
	process := p.process
	ended := p.ended
	p.stopping = true
	p.mu.Unlock()
	if process == nil {
		return
	}
	_ = syscall.Kill(-process.Pid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(p.grace):
		_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
		<-ended
	}
}

// wait polls ask until it returns nil or the context ends. The error then contains the last one of ask.
func wait(ctx context.Context, what string, ask func(ctx context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func tail(path string, size int) []byte {
	text, _ := os.ReadFile(path)
	if len(text) > size {
		text = text[len(text)-size:]
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return text
}

// spawn starts a process from an OS thread that lives as long as this program, because the kernel sends the parent death
// signal to children when the thread that started them ends.
func spawn(c *exec.Cmd) error {
	spawnOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for start := range spawns {
				start()
			}
		}()
	})
	result := make(chan error)
	spawns <- func() { result <- c.Start() }
	return <-result
}

var (
	spawnOnce sync.Once
	spawns    = make(chan func())
)

// kill sends a signal. The exit that follows is not reported as a crash.
func (p *Part) kill(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.process != nil {
		_ = syscall.Kill(-p.process.Pid, signal)
	}
}

// crash returns the error for a part that exited without being stopped. err is nil if its exit code was 0.
func crash(name string, err error, log string) error {
	how := "exit code 0"
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s exited unexpectedly: %s\n%s", name, how, log)
}
