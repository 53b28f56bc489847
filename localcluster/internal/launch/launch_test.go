// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPart_exitsOnItsOwn_reportsCrash(t *testing.T) {
	p, crashed := shell(t, "echo the reason; exit 3")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	err := <-crashed
	if !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("got error %v, want exit status and log", err)
	}
	if s := p.State(); s.State != "stopped" || s.PID != 0 {
		t.Errorf("state: %+v", s)
	}
}

func TestPart_stopped_reportsNoCrash(t *testing.T) {
	for name, script := range map[string]string{
		"exits on SIGTERM": "exec sleep 60",
		"ignores SIGTERM":  "trap '' TERM; echo ready; while true; do sleep 60; done",
	} {
		t.Run(name, func(t *testing.T) {
			p, crashed := shell(t, script)
			for range 2 { // it can be started again after a stop
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				pid := p.State().PID
				p.Stop()
				p.Stop()
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process still exists: %v", err)
				}
				select {
				case err := <-crashed:
					t.Error(err)
				default:
				}
			}
		})
	}
}

func TestBuilder_Build_rebuildsOnlyAfterSourceChange(t *testing.T) {
	module := t.TempDir()
	source := func(name, text string) {
		t.Helper()
		if err := WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source("go.mod", "module example.com/tool\n\ngo 1.26\n")
	source("main.go", "package main\n\nfunc main() {}\n")
	b := &Builder{Module: module, Cache: filepath.Join(module, "cache"), Out: io.Discard}
	a := Artifact{Name: "tool", Dir: ".", Package: ".", Sources: []string{"go.mod", "main.go", "other"}}
	source("other/other_test.go", "package other\n")

	first := b.mustBuild(t, a)
	built, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	source("other/other_test.go", "package other // tests are not sources\n")
	if again := b.mustBuild(t, a); again != first {
		t.Errorf("rebuilt without a source change: %s", again)
	}
	if now, err := os.Stat(first); err != nil || !os.SameFile(built, now) {
		t.Error("executable was overwritten")
	}
	source("main.go", "package main\n\nfunc main() { println() }\n")
	second := b.mustBuild(t, a)
	if second == first {
		t.Error("not rebuilt after a source change")
	}
	if short, err := filepath.EvalSymlinks(filepath.Join(b.Cache, "tool")); err != nil || short != second {
		t.Errorf("short name links to %s, %v", short, err)
	}
	source("main.go", "package main\n\nfunc main() { nonsense }\n")
	if _, err := b.Build(t.Context(), a); err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("got error %v, want the compiler's message", err)
	}
}

func (b *Builder) mustBuild(t *testing.T, a Artifact) string {
	t.Helper()
	path, err := b.Build(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCluster_choosePorts_reusesPortsOfStateFolder(t *testing.T) {
	dir := t.TempDir()
	choose := func() Ports {
		t.Helper()
		c := &Cluster{Info: Info{StateDir: dir}, options: Options{Nodes: 3}}
		defer c.release()
		if err := c.choosePorts(); err != nil {
			t.Fatal(err)
		}
		return c.Info.Ports
	}
	first := choose()
	if again := choose(); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("got %v, then %v", first, again)
	}
	all := append([]int{first.Etcd, first.EtcdPeer, first.APIServer, first.MetricsServer, first.Nodes, first.Control, first.Prometheus}, first.Kubelets...)
	slices.Sort(all)
	if len(slices.Compact(all)) != 10 || all[0] < firstPort {
		t.Errorf("ports: %v", all)
	}
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if other := choose(); other.APIServer == first.APIServer || other.Etcd != first.Etcd {
		t.Errorf("with a port taken: %v", other)
	}
}

// No part listens yet when the next cluster chooses its ports.
func TestCluster_choosePorts_noPortBelongsToTwoClusters(t *testing.T) {
	owner := map[int]int{}
	for i := range 40 {
		c := &Cluster{Info: Info{StateDir: t.TempDir()}, options: Options{Nodes: 100}}
		t.Cleanup(c.release)
		if err := c.choosePorts(); err != nil {
			t.Fatal(err)
		}
		for _, port := range c.Info.Ports.Kubelets {
			if other, taken := owner[port]; taken {
				t.Fatalf("clusters %d and %d both have port %d", other, i, port)
			}
			owner[port] = i
		}
	}
	c := &Cluster{Info: Info{StateDir: t.TempDir()}, options: Options{ControlPort: slices.Collect(maps.Keys(owner))[0]}}
	t.Cleanup(c.release)
	if err := c.choosePorts(); err == nil || !strings.Contains(err.Error(), "is reserved by another local cluster or test") {
		t.Errorf("a control port of another cluster: error %v", err)
	}
}

func TestCA_clientCertificate_namesUserAndGroups(t *testing.T) {
	dir := t.TempDir()
	ca, err := openCA(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	again, err := openCA(dir, "ca")
	if err != nil || string(again.CertPEM) != string(ca.CertPEM) {
		t.Fatalf("authority was not stored: %v", err)
	}
	text, _, err := again.client("somebody", "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil || cert.Subject.CommonName != "somebody" || !slices.Equal(cert.Subject.Organization, []string{"one", "two"}) {
		t.Errorf("certificate of %v, %v", cert.Subject, err)
	}
}

func TestControl_remoteOrBrowserRequest_isForbidden(t *testing.T) {
	h := localOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	for host, want := range map[string]int{"127.0.0.1:1234": 200, "localhost:1234": 200, "evil.example:1234": 403, "127.0.0.1": 403} {
		q := httptest.NewRequest(http.MethodGet, "/parts", nil)
		q.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
	q := httptest.NewRequest(http.MethodPost, "/quit", nil)
	q.Host = "127.0.0.1:1"
	q.Header.Set("Origin", "https://evil.example")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	if w.Code != http.StatusForbidden {
		t.Errorf("request with Origin header: got %d, want 403", w.Code)
	}
}

func TestOptions_invalidValues_areRefused(t *testing.T) {
	if err := DefaultOptions.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"nodes":          func(o *Options) { o.Nodes = -1 },
		"large nodes":    func(o *Options) { o.LargeNodes = 4 },
		"cores":          func(o *Options) { o.NodeCPU = 0 },
		"memory":         func(o *Options) { o.NodeMemory = 1 },
		"speed":          func(o *Options) { o.Speed = 0 },
		"resolution":     func(o *Options) { o.MetricResolution = time.Second },
		"back-off":       func(o *Options) { o.CrashLoopMax = 0 },
		"CPU manager":    func(o *Options) { o.CPUManager = "dynamic" },
		"memory manager": func(o *Options) { o.MemoryManager = "Static" },
	} {
		o := DefaultOptions
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s: %+v was accepted", name, o)
		}
	}
}

func shell(t *testing.T, script string) (*Part, <-chan error) {
	crashed := make(chan error, 1)
	p := &Part{Name: "shell", Log: filepath.Join(t.TempDir(), "log"), command: []string{"/bin/sh", "-c", script}, grace: 500 * time.Millisecond, crashed: crashed}
	t.Cleanup(p.Stop)
	return p, crashed
}
