// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"podfit.dev/podfit/test/e2e/bed"
)

// runKubectl runs kubectl with the arguments of this process, and exits.
func runKubectl() {
	cmdutil.CheckErr(cmd.NewDefaultKubectlCommand().Execute())
	os.Exit(0)
}

// A newcomer is a user with a shell, an own home folder with a kubeconfig, and podfit, kubectl and helm on the PATH.
type newcomer struct {
	*world
	home, checkout string // folders
	repository     string // folder with the sources
	upstream       string // folder with upstream's module
	path           string
	run            map[pageCommand]bool
	done           map[string]bool    // commands that do has run
	later          []func(*testing.T) // checks of the commands that run beside others
}

// contexts are those of the newcomer's kubeconfig. Both are of the same cluster. The name of the second is like that of a cluster of EKS.
var contexts = []string{"prod", "arn:aws:eks:eu-central-1:123456789012:cluster/two"}

func newNewcomer(t *testing.T, w *world) *newcomer {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	n := &newcomer{
		world: w, home: t.TempDir(), checkout: t.TempDir(), repository: repository, upstream: upstreamModule(t),
		run: map[pageCommand]bool{}, done: map[string]bool{},
	}
	bin := t.TempDir()
	n.path = strings.Join([]string{filepath.Join(n.home, "bin"), bin, "/usr/local/bin", "/usr/bin", "/bin"}, ":")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", ".kube"} {
		if err := os.Mkdir(filepath.Join(n.home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"podfit": w.binary, "kubectl": self} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "helm"), "helm.sh/helm/v3/cmd/helm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(n.checkout, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	only := config.Contexts[config.CurrentContext]
	delete(config.Contexts, config.CurrentContext)
	for _, name := range contexts {
		config.Contexts[name] = only
	}
	config.CurrentContext = contexts[0]
	if err := clientcmd.WriteToFile(*config, filepath.Join(n.home, ".kube", "config")); err != nil {
		t.Fatal(err)
	}
	return n
}

// shell returns a shell that runs a text in the folder of the checkout. It is a process group of its own, as in a terminal.
func (n *newcomer) shell(ctx context.Context, text string) (*exec.Cmd, *output) {
	c := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text)
	c.Dir = n.checkout
	c.Env = []string{"HOME=" + n.home, "PATH=" + n.path, "TERM=dumb", "KUBE_EDITOR=" + filepath.Join(n.home, "editor")}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	out := &output{}
	c.Stdout, c.Stderr = out, out
	return c, out
}

// An output is what a command has printed. It can be read while the command runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// do runs a text in a shell, and returns what it prints. It must exit with code 0.
func (n *newcomer) do(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, out := n.shell(ctx, text)
	if err := c.Run(); err != nil {
		t.Fatalf("%s\n%v\n%s", text, err, out)
	}
	n.done[text] = true
	return out.String()
}

// A step says how a command of a page is run, and what is true after it. The zero step runs a command that must exit with code 0.
type step struct {
	before func(t *testing.T)
	// during makes the command a process that runs until it gets the signal of Ctrl-C. during returns nil when the process does what the
	// page says. The process must then exit with code 0.
	during func(ctx context.Context, out *output) error
	// later makes the command run beside the following ones. Its check runs when wait is called.
	later bool
	// then is run in the same shell, after the command.
	then string
	// fails is a part of the error with which the command must fail.
	fails string
	check func(t *testing.T, out string)
}

// A guide says how the commands of a page are run. Steps are found by the beginning of the command, which must be that of one command only.
type guide struct {
	page  string
	words map[string]string // placeholders of the page and what the user writes instead
	steps map[string]step
}

// follow runs the commands of a page from top to bottom.
func (n *newcomer) follow(t *testing.T, g guide) {
	t.Run(g.page, func(t *testing.T) {
		commands, _ := pageCommands(g.page, read(t, filepath.Join(root, g.page)))
		used := map[string]bool{}
		for _, c := range commands {
			if isElsewhere(c) {
				continue
			}
			beginning, found := g.step(c.text)
			if found && used[beginning] {
				t.Errorf("two commands begin with %s", beginning)
			}
			used[beginning] = true
			n.run[c] = true
			n.take(t, g.steps[beginning], fill(c.text, g.words))
		}
		for beginning := range g.steps {
			if !used[beginning] {
				t.Errorf("no command begins with %s", beginning)
			}
		}
	})
}

// step returns the key of the step for a command: its longest beginning.
func (g guide) step(command string) (key string, found bool) {
	for beginning := range g.steps {
		if strings.HasPrefix(command, beginning) && len(beginning) > len(key) {
			key, found = beginning, true
		}
	}
	return key, found
}

// fill replaces placeholders.
func fill(text string, words map[string]string) string {
	for word, instead := range words {
		text = regexp.MustCompile(`\b`+word+`\b`).ReplaceAllLiteralString(text, instead)
	}
	return text
}

func (n *newcomer) take(t *testing.T, s step, text string) {
	t.Helper()
	if s.before != nil {
		s.before(t)
	}
	if s.then != "" {
		text += "\n" + s.then
	}
	start := time.Now()
	defer func() { t.Logf("%5.1fs %s", time.Since(start).Seconds(), text) }()
	switch {
	case s.during != nil:
		out := n.interrupted(t, s, text)
		if s.check != nil {
			s.check(t, out)
		}
		return
	case s.later:
		n.later = append(n.later, n.beside(t, s, text))
		return
	case s.fails != "":
		c, out := n.shell(t.Context(), text)
		if err := c.Run(); err == nil || !strings.Contains(out.String(), s.fails) {
			t.Errorf("%s\n%v\n%s", text, err, out)
		}
		return
	}
	out := n.do(t, text)
	if s.check != nil {
		s.check(t, out)
	}
}

// beside starts a command, and returns a function that waits until it has ended, and checks it.
func (n *newcomer) beside(t *testing.T, s step, text string) func(*testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	c, out := n.shell(ctx, text)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // at once: the test may look much later than the command ends
	return func(t *testing.T) {
		defer cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s\n%v\n%s", text, err, out)
		}
		s.check(t, out.String())
	}
}

// interrupted runs a command until it does what it should, and ends it as Ctrl-C does.
func (n *newcomer) interrupted(t *testing.T, s step, text string) string {
	t.Helper()
	until(t, "podfit's default ports are free", time.Minute, portsFree)
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	c, out := n.shell(ctx, text)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var problem error
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		if problem = s.during(ctx, out); problem == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("%s\nended: %v, before: %v\n%s", text, err, problem, out)
		case <-ctx.Done():
			<-ended
			t.Fatalf("%s\n%v\n%s", text, problem, out)
		case <-tick.C:
		}
	}
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%s\nafter Ctrl-C: %v\n%s", text, err, out)
	}
	return out.String()
}

// portsFree returns nil if no process listens on the ports that podfit uses by default: another run of the tests may.
func portsFree(ctx context.Context) error {
	for _, port := range []string{":8000", ":8942", ":8943", ":8944", ":8945"} {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", port)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// printed returns a check that the output contains texts.
func printed(texts ...string) func(*testing.T, string) {
	return func(t *testing.T, out string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("the output does not contain %q:\n%s", text, out)
			}
		}
	}
}

// says returns nil when the output of a running command contains a text.
func says(text string) func(context.Context, *output) error {
	return func(_ context.Context, out *output) error {
		if !strings.Contains(out.String(), text) {
			return fmt.Errorf("the output does not contain %q", text)
		}
		return nil
	}
}
