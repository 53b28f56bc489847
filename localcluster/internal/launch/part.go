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
	Log  string // the file that its output goes to

	command []string
	ready   func(ctx context.Context) error // nil if it works; asked again until then
	grace   time.Duration                   // from SIGTERM to SIGKILL
	crashed chan<- error

	calls sync.Mutex // one Start or Stop at a time

	mu       sync.Mutex
	process  *os.Process
	ended    chan struct{}
	stopping bool
}

// A State is what is known of a part.
type State struct {
	Name  string `json:"name"`
	State string `json:"state"` // running or stopped
	PID   int    `json:"pid,omitempty"`
	Log   string `json:"log"`
}

// State tells whether the part runs.
func (p *Part) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Name: p.Name, State: "stopped", Log: p.Log}
	if p.process != nil {
		s.State, s.PID = "running", p.process.Pid
	}
	return s
}

// Start runs the part; starting twice is harmless.
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
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := spawn(c); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.process, p.ended, p.stopping = c.Process, make(chan struct{}), false
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

// Ready waits until the part works.
func (p *Part) Ready(ctx context.Context) error {
	if p.ready == nil {
		return nil
	}
	return wait(ctx, p.Name, p.ready)
}

// Stop ends the part and waits for its end; stopping twice is harmless.
func (p *Part) Stop() {
	p.calls.Lock()
	defer p.calls.Unlock()
	p.mu.Lock()
	process, ended := p.process, p.ended
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

// wait asks until the answer is nil; the last answer explains why it took too long.
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

// spawn starts a process from a thread that lives as long as this program: the kernel's death signal for children
// comes when the thread that made them ends.
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

// kill sends a signal, after which the end of the part is no crash.
func (p *Part) kill(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.process != nil {
		_ = syscall.Kill(-p.process.Pid, signal)
	}
}

// crash says how a part ended that should not have. It may have ended well, as its error then says: there is none.
func crash(name string, err error, log string) error {
	how := "without an error"
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s ended by itself: %s\n%s", name, how, log)
}
