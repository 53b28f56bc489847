// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package web tests the web page in Debian's Chromium. Run with SCREENSHOTS=FOLDER, it also writes pictures of the pages.
package web

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"archive/tar"
	"compress/gzip"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json/jsontext"

	"podfit.dev/podfit/internal/edge/web"
)

// browser is the context of the one browser of all tests; nil if there is none.
var browser context.Context

// missing is why the tests are skipped; "" if they run.
var missing string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path, err := chromium()
	if err != nil {
		missing = err.Error()
		log.Print("the tests in the browser are skipped: ", missing)
		return m.Run()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var cancel context.CancelFunc
	browser, cancel = chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Run(browser); err != nil {
		log.Print("start Chromium: ", err)
		return 1
	}
	return m.Run()
}

// chromium returns the path of Chromium. As root on Debian, it installs it if it is missing.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", errors.New("Chromium is not installed; on Debian, run apt-get install chromium")
	}
	for _, arguments := range [][]string{{"update", "-qq"}, {"install", "-qq", "-y", "--no-install-recommends", "chromium"}} {
		cmd := exec.Command("apt-get", arguments...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("Chromium could not be installed: apt-get %s: %w\n%s", arguments[0], err, out)
		}
	}
	return exec.LookPath("chromium")
}

// serve serves a source on a loopback address.
func serve(t *testing.T, c web.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: web.New(c), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// A tab is a tab of the browser that records everything that must not happen.
type tab struct {
	context.Context //nolint:containedctx // chromedp keeps its tab in a context
	mu              sync.Mutex
	problems        []string
}

// open opens a tab. Errors on the console, violations of the security policy and requests to other addresses fail the test.
func open(t *testing.T, dark bool, width int64) *tab {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 8*time.Minute)
	t.Cleanup(cancel)
	p := &tab{Context: ctx}
	chromedp.ListenTarget(ctx, p.observe)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if err := chromedp.Run(ctx, network.Enable(), cdplog.Enable(), runtime.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(width, 900)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Error(problem)
		}
	})
	return p
}

func (p *tab) observe(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			problem = fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError || e.Entry.Level == cdplog.LevelWarning {
			problem = fmt.Sprintf("log: %s %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Scheme != "data" && u.Scheme != "about" && u.Hostname() != "127.0.0.1" {
			problem = "request to " + e.Request.URL
		}
	}
	if problem != "" {
		p.mu.Lock()
		p.problems = append(p.problems, problem)
		p.mu.Unlock()
	}
}

// do runs actions and fails the test if one fails.
func (p *tab) do(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(p.Context, actions...); err != nil {
		t.Fatal(err)
	}
}

// follow runs actions that lead to another page, and waits until it is loaded.
func (p *tab) follow(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if _, err := chromedp.RunResponse(p.Context, actions...); err != nil {
		t.Fatal(err)
	}
}

// evaluate returns the value of an expression on the page.
func evaluate[T any](t *testing.T, p *tab, expression string) (value T) {
	t.Helper()
	p.do(t, chromedp.Evaluate(expression, &value, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return value
}

// A node is a node of the accessibility tree.
type node struct{ role, name string }

// tree returns the accessibility tree of a page, which a screen reader reads.
func tree(t *testing.T, p *tab) []node {
	t.Helper()
	type value struct{ Value string }
	var raw struct {
		Nodes []struct {
			Ignored bool
			Role    value
			Name    value
		}
	}
	p.do(t, chromedp.ActionFunc(func(ctx context.Context) error {
		target := chromedp.FromContext(ctx).Target
		if err := target.Execute(ctx, "Accessibility.enable", nil, nil); err != nil {
			return err
		}
		var text jsontext.Value
		if err := target.Execute(ctx, "Accessibility.getFullAXTree", nil, &text); err != nil {
			return err
		}
		return json.Unmarshal(text, &raw)
	}))
	var out []node
	for _, n := range raw.Nodes {
		if !n.Ignored {
			out = append(out, node{n.Role.Value, n.Name.Value})
		}
	}
	return out
}

const (
	axeVersion  = "4.14.1"
	axeChecksum = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the source of axe-core, which is read from npm once.
func axe(t *testing.T) string {
	t.Helper()
	folder := filepath.Join("..", "..", ".cache", "npm")
	file := filepath.Join(folder, "axe-core-"+axeVersion+".tgz")
	if _, err := os.Stat(file); err != nil {
		if _, err := exec.LookPath("npm"); err != nil {
			t.Skip("npm is not installed, so axe-core cannot be read")
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("npm", "pack", "--silent", "axe-core@"+axeVersion)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm pack: %v\n%s", err, out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != axeChecksum {
		t.Fatalf("%s has checksum %s, want %s; delete it", file, got, axeChecksum)
	}
	z, err := gzip.NewReader(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "package/axe.min.js" {
			source, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(source)
		}
	}
}
