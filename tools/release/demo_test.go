// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// checkDemo checks the demo archive of a release, and runs it until its first table.
func checkDemo(t *testing.T, all map[string][]byte) {
	t.Helper()
	name := "podfit_demo_1.2.3_linux_" + runtime.GOARCH
	archive := all[name+".tar.gz"]
	t.Logf("%s.tar.gz has %.1f MB", name, float64(len(archive))/1e6)
	if len(archive) > demoLimit {
		t.Errorf("the demo archive has %d bytes; the limit is %d", len(archive), demoLimit)
	}
	files := unpack(t, archive)
	var programs [][]byte
	for _, program := range demoPrograms {
		programs = append(programs, files[name+"/bin/"+program])
	}
	checkMaterials(t, all[name+".cdx.json"], programs...)
	for _, module := range []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/metrics-server", "github.com/spf13/cobra"} {
		if license := files[name+"/THIRD-PARTY-LICENSES.txt"]; !bytes.Contains(license, []byte("\n"+module+" v")) {
			t.Errorf("the licenses lack that of %s", module)
		}
		if !bytes.Contains(all[name+".cdx.json"], []byte(module+"@v")) {
			t.Errorf("the bill of materials lacks %s", module)
		}
	}
	runDemo(t, name, archive)
}

// A terminal is a pseudo terminal and what was written to it.
type terminal struct {
	master, slave *os.File

	mu   sync.Mutex
	text []byte
	more chan struct{} // has an item if text has grown
}

// openTerminal returns a terminal of 160 columns and 50 lines.
func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160}))
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{master: master, slave: slave, more: make(chan struct{}, 1)}
}

// read collects what is written, until all processes have closed the terminal.
func (s *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.master.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.text = append(s.text, buffer[:n]...)
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

func (s *terminal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// nobody is the user that runs the demo if root runs the tests.
const nobody = 65534

// demoDeadline is how long the demo may take until its first table, and to end, on a machine with much other work.
const demoDeadline = 10 * time.Minute

// firstTable matches the head of the table on a terminal, and the first workload below it.
var firstTable = regexp.MustCompile(`WORKLOAD +MODE +CONTAINER(?s:.*)deployment web ×3`)

// runDemo unpacks a demo archive as a user does, and runs it as a user without root, without Go, and without a network, until the first table.
// It logs the time. Then it presses Ctrl-C. Nothing may be left.
func runDemo(t *testing.T, name string, archive []byte) {
	t.Helper()
	// The paths of sockets are limited to 108 bytes, and t.TempDir can be read by its owner only.
	base, err := os.MkdirTemp("", "podfit-demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	home, tmp, path := filepath.Join(base, "home"), filepath.Join(base, "tmp"), filepath.Join(base, "path")
	err = errors.Join(os.Chmod(base, 0o755), os.Mkdir(home, 0o700), os.Mkdir(tmp, 0o700), os.Mkdir(path, 0o755),
		os.WriteFile(filepath.Join(base, "demo.tar.gz"), archive, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	uname, err := exec.LookPath("uname")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(uname, filepath.Join(path, "uname")); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", base, "-xzf", filepath.Join(base, "demo.tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	before := slices.Sorted(maps.Keys(tree(t, filepath.Join(base, name))))

	screen := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(base, name, "demo"))
	cmd.Dir = base
	cmd.Env = []string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + tmp, "TERM=xterm", "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen.slave, screen.slave, screen.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := errors.Join(os.Chown(home, nobody, nobody), os.Chown(tmp, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.slave.Close()
	ended := make(chan error, 1)
	go func() {
		screen.read() // returns when all processes of the demo have closed the terminal
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	deadline := time.After(demoDeadline)
	for !firstTable.MatchString(screen.String()) {
		select {
		case <-screen.more:
		case err := <-ended:
			t.Fatalf("the demo ended before its first table: %v\n%s", err, screen)
		case <-deadline:
			t.Fatalf("no table after %s:\n%s", demoDeadline, screen)
		}
	}
	t.Logf("the first table was there %.0f s after the start of tar", time.Since(started).Seconds())

	if _, err := screen.master.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-deadline:
		t.Fatalf("the demo still runs after Ctrl-C:\n%s", screen)
	}
	if out := screen.String(); !strings.Contains(out, "Interrupted. The cluster is stopped and removed.") || !strings.Contains(out, "Its files are in "+tmp+"/") {
		t.Errorf("the demo printed\n%s", out)
	}
	if after := slices.Sorted(maps.Keys(tree(t, filepath.Join(base, name)))); !slices.Equal(before, after) {
		t.Errorf("the folder of the demo had %v, now it has %v", before, after)
	}
	for _, folder := range []string{home, tmp} {
		if left := tree(t, folder); len(left) > 0 {
			t.Errorf("the demo left %v in %s", slices.Sorted(maps.Keys(left)), folder)
		}
	}
}

// An archive is complete without what takes minutes to compile.
func TestWriteDemo_eachArchitecture_hasWhatTheDemoNeeds(t *testing.T) {
	dir := t.TempDir()
	source, small := filepath.Join(dir, "main.go"), filepath.Join(dir, "small") // any binary of Go
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", small, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := release{root: "../..", out: filepath.Join(dir, "out"), version: "1.2.3", created: time.Unix(epoch, 0).UTC(), binaries: dir, sums: map[string]string{}}
	r.demo = []file{{name: "LICENSE", mode: 0o644, content: []byte("license")}}
	for arch, machine := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		p := platform{"linux", arch}
		if err := os.Mkdir(r.demoFolder(p), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range demoPrograms {
			if err := os.Link(small, filepath.Join(r.demoFolder(p), program)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.writeDemo(p); err != nil {
			t.Fatal(err)
		}
		name := "podfit_demo_1.2.3_linux_" + arch
		content, err := os.ReadFile(filepath.Join(r.out, name+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		files := unpack(t, content)
		for _, want := range []string{
			"LICENSE", "README.txt", "bin/controlplane", "bin/demo", "bin/localcluster", "bin/metrics-server", "bin/podfit", "demo",
			"deploy/00-crds.yaml", "deploy/crds/podfit.dev_sizingprofiles.yaml",
		} {
			if len(files[name+"/"+want]) == 0 {
				t.Errorf("the archive has no %s: %v", want, slices.Sorted(maps.Keys(files)))
			}
		}
		if files[name+"/deploy/chart/Chart.yaml"] != nil || string(files[name+"/bin/podfit"]) != "-> demo" {
			t.Errorf("the archive has %v, and podfit is %.20q", slices.Sorted(maps.Keys(files)), files[name+"/bin/podfit"])
		}
		for _, text := range []string{"README.txt", "demo"} {
			if content := string(files[name+"/"+text]); !strings.Contains(content, "Linux on "+machine) || regexp.MustCompile(`@[A-Z]+@`).MatchString(content) {
				t.Errorf("%s:\n%s", text, content)
			}
		}
		if r.sums[name+".tar.gz"] == "" || r.sums[name+".cdx.json"] == "" {
			t.Errorf("checksums %v", r.sums)
		}
	}
}

// The script runs where the executables do not, so that the user reads a sentence instead of "exec format error".
func TestDemoScript_otherMachines_areRefused(t *testing.T) {
	dir := t.TempDir()
	r := release{root: "../..", version: "1.2.3"}
	files, err := r.demoFiles(platform{"linux", "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	write("demo", string(files[slices.IndexFunc(files, func(f file) bool { return f.name == "demo" })].content))
	write("bin/demo", "#!/bin/sh\necho the demo with \"$@\"\n")
	write("path/uname", "#!/bin/sh\n[ \"$1\" = -s ] && echo \"$SYSTEM\" || echo \"$MACHINE\"\n")
	for machine, want := range map[string]string{
		"Linux aarch64": "the demo with -nodes 2\n",
		"Linux x86_64":  "demo: this archive is for Linux on aarch64; this machine is Linux x86_64\n",
		"Darwin arm64":  "demo: this archive is for Linux on aarch64; this machine is Darwin arm64\n",
	} {
		for _, start := range []string{"./demo", "demo"} { // in the folder: directly, and as sh demo
			system, arch, _ := strings.Cut(machine, " ")
			cmd := exec.CommandContext(t.Context(), "/bin/sh", start, "-nodes", "2")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "SYSTEM=" + system, "MACHINE=" + arch}
			out, err := cmd.CombinedOutput()
			if refused := machine != "Linux aarch64"; !strings.HasPrefix(string(out), want) || (err != nil) != refused {
				t.Errorf("%s: %s: %v, %s, want %s", machine, start, err, out, want)
			}
		}
	}
}
