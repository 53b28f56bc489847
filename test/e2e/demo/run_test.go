// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
)

// asDemo is the environment variable with which the test executable runs the demo instead of the tests.
const asDemo = "PODFIT_TEST_RUNS_DEMO"

func TestMain(m *testing.M) {
	if os.Getenv(asDemo) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The deadlines of a run of the demo. A run takes about 3 minutes; the builds before it find everything built.
const (
	runTime  = 10 * time.Minute // until the demo prints the address of the page
	stopTime = time.Minute      // from Ctrl-C to the exit
)

// A demoRun is a process that runs the demo like make demo KEEP=1.
type demoRun struct {
	*bed.Process
	tmp string // the folder for all its temporary files; its children have the same, which identifies them
}

// startDemo starts the demo. Its output is a file, so it prints lines instead of redrawing a table.
func startDemo(t *testing.T) *demoRun {
	t.Helper()
	// The paths of sockets are limited to 108 bytes, so this is not t.TempDir.
	tmp, err := os.MkdirTemp("", "podfit-demo-")
	if err != nil {
		t.Fatal(err)
	}
	p, err := bed.Start(bed.Command{
		Name: "demo", Path: os.Args[0], Log: filepath.Join(t.TempDir(), "demo.log"),
		Env: []string{asDemo + "=1", "KEEP=1", "TMPDIR=" + tmp},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Stop(), os.RemoveAll(tmp)); err != nil {
			t.Error(err)
		}
	})
	return &demoRun{Process: p, tmp: tmp}
}

// output returns what the demo has printed.
func (d *demoRun) output(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(d.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// waitFor waits until the demo has printed a text, and returns all that it has printed.
func (d *demoRun) waitFor(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	exited := false
	err := bed.Until(ctx, 250*time.Millisecond, func(context.Context) error {
		exited = !d.Running()
		if !exited && !strings.Contains(d.output(t), text) {
			return fmt.Errorf("the demo has not printed %q", text)
		}
		return nil
	})
	if exited {
		err = fmt.Errorf("the demo exited: %v", d.Err())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, d.Tail(100))
	}
	return d.output(t)
}

// interrupt sends what Ctrl-C in a terminal sends, to the process group of the demo.
func (d *demoRun) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-d.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
	case <-time.After(stopTime):
		t.Fatalf("the demo still runs %v after Ctrl-C\n%s", stopTime, d.Tail(100))
	}
}

// children returns the command lines of the processes that the demo or its children started, and that still run.
func (d *demoRun) children(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte("TMPDIR="+d.tmp+"\x00")) {
			continue // it has exited, or is of another user
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && len(line) > 0 {
			out = append(out, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// What the demo prints for its user at the end.
var (
	pageAddress = regexp.MustCompile(`(?m)^  The web page: (http://\S+)$`)
	keptConfig  = regexp.MustCompile(`(?m)^  export KUBECONFIG=(\S+)$`)
)

// TestDemo_keptCluster_servesThePageUntilCtrlC runs make demo KEEP=1 as a user does, to its end, on a real control plane, and compares its table
// and podfit explain with README.md.
//
// Rows 21 and 22 of docs/decisions/0007.
func TestDemo_keptCluster_servesThePageUntilCtrlC(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests are not short")
	}
	t.Parallel()
	d := startDemo(t)
	out := d.waitFor(t, "podfit's logs are in ") // the last line

	demo, kept, _ := strings.Cut(out, "\nThe cluster runs until Ctrl-C.\n")
	_, explanation, found := strings.Cut(demo, "\n$ podfit explain deploy/worker -n shop ")
	if !found || !strings.Contains(explanation, "\nNEXT ") || !strings.Contains(explanation, " of memory\n") {
		t.Errorf("the demo does not end with an explanation of deploy/worker:\n%s", out)
	}
	address := pageAddress.FindStringSubmatch(kept)
	if address == nil {
		t.Fatalf("the demo does not print the address of the page:\n%s", kept)
	}
	if overview := fetch(t, address[1]); !strings.Contains(overview, " resized in place, ") {
		t.Errorf("the page does not show what podfit did:\n%s", overview)
	}
	checkHealth(t, address[1])
	workloads := fetchRead(t, address[1]+"workloads")
	for _, name := range []string{"web", "worker", "db", "agent", "orders", "report", "checkout"} {
		if !strings.Contains(workloads, ">"+name+"</a>") {
			t.Errorf("the page does not list workload %s:\n%s", name, workloads)
		}
	}
	checkSummary(t, demo)
	kubeconfig := keptConfig.FindStringSubmatch(kept)
	if kubeconfig == nil {
		t.Fatalf("the demo does not print the kubeconfig:\n%s", kept)
	}
	checkExplain(t, kubeconfig[1])
	checkSuggested(t, kept, kubeconfig[1])
	if n := len(d.children(t)); n < 5 {
		t.Errorf("found %d processes of the demo, so the check at the end would find none", n)
	}

	d.interrupt(t)
	if err := d.Err(); err != nil {
		t.Errorf("the demo failed after Ctrl-C: %v\n%s", err, d.Tail(20))
	}
	if last := d.Tail(1); last != "Stopping the cluster." {
		t.Errorf("the demo ended with %q", last)
	}
	for _, child := range d.children(t) {
		t.Errorf("the demo left a process behind: %s", child)
	}
	left, err := os.ReadDir(d.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		t.Errorf("the demo left %s behind in its folder for temporary files", file.Name())
	}
}

// suggested matches a command of podfit that the demo suggests, without its comment.
var suggested = regexp.MustCompile(`(?m)^  (\S+/podfit (explain|recommend) [^#\n]+)`)

// checkSuggested runs the commands of podfit that the demo suggests. As in README.md, each row of podfit recommend has a young number and its age.
func checkSuggested(t *testing.T, kept, kubeconfig string) {
	t.Helper()
	found := suggested.FindAllStringSubmatch(kept, -1)
	if len(found) != 3 {
		t.Fatalf("the demo suggests %d commands of podfit, want 3:\n%s", len(found), kept)
	}
	ctx, cancel := bed.WithPatience(t.Context(), 5*time.Minute)
	defer cancel()
	for _, m := range found {
		cmd := exec.CommandContext(ctx, "sh", "-c", m[1])
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PROMETHEUS_URL=")
		out, err := cmd.Output()
		rows := map[string][]string{
			"explain":   {`shop/Deployment/worker`},
			"recommend": {`deploy/web`, `deploy/worker`, `sts/db`, `ds/agent`, `deploy/orders`, `deploy/checkout .* app`, `deploy/checkout .* proxy`},
		}
		if strings.Contains(m[1], "deploy/worker") {
			rows["explain"] = append(rows["explain"], `NEXT +worker-`, `WHY \S+ of memory`)
		}
		for _, row := range rows[m[2]] {
			if m[2] == "recommend" {
				row = `(?m)^shop/` + row + ` .*, young [1-9]\S* .*, young [1-9]\S* .*(from \d+ (s|min) of usage|not enough usage: .* are needed)$`
			}
			if !regexp.MustCompile(row).Match(out) {
				t.Errorf("%s: error %v, no %s in\n%s", m[1], err, row, out)
			}
		}
	}
}

// checkHealth waits until the page shows that all parts of podfit are healthy.
func checkHealth(t *testing.T, page string) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	err := bed.Until(ctx, time.Second, func(context.Context) error {
		var overview struct {
			Health []struct{ Name, Condition, Text string }
		}
		if err := json.Unmarshal([]byte(fetch(t, page+"?format=json")), &overview); err != nil {
			return err
		}
		for _, part := range overview.Health {
			if part.Condition != "healthy" {
				return fmt.Errorf("%s is %s: %s", part.Name, part.Condition, part.Text)
			}
		}
		if len(overview.Health) != 3 {
			return fmt.Errorf("the page shows the health of %d parts, want 3", len(overview.Health))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Without a lease, the page does not know whether recommender and updater run.
func TestComponents_recommenderAndUpdater_electLeaders(t *testing.T) {
	for _, c := range components(nil) {
		if elects := slices.Contains(c.Args, "--leader-elect"); elects != (c.Command != "admission-controller") {
			t.Errorf("%s elects a leader: %v", c.Name, elects)
		}
	}
}

// fetchRead waits until podfit has read the cluster, and returns a page. podfit begins to read when the first viewer opens a page.
func fetchRead(t *testing.T, url string) (page string) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, func(context.Context) error {
		if page = fetch(t, url); strings.Contains(page, "podfit is still reading the cluster") {
			return errors.New("podfit is still reading the cluster")
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return page
}

// fetch returns a page that is served with status 200.
func fetch(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s\n%s", url, response.Status, body)
	}
	return string(body)
}
