// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
)

// A world is a cluster with podfit's objects and its admission controller. Its users have the rights to get and list only.
type world struct {
	*bed.Cluster
	root, binary string
	reader       string // kubeconfig
}

// The user of the commands. It has no right for Secrets, and none to create, so a POST through the proxy of the API server fails.
const reader = `apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: kube-system}]
`

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: end-to-end tests are not short")
		return
	}
	code := m.Run()
	for _, end := range slices.Backward(ends) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// ends stop what the tests of this run share, the last one first.
var ends []func() error

// started is the world of this run, which the first call starts.
var started = sync.OnceValues(newWorld)

// shared returns the world of this run. The first test that needs it starts it.
func shared(t *testing.T) *world {
	t.Helper()
	w, err := started()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// newWorld starts the cluster with podfit. TestMain stops them.
func newWorld() (w *world, err error) {
	ctx := context.Background()
	w = &world{}
	if w.root, err = bed.Root(); err != nil {
		return nil, err
	}
	if w.binary, err = bed.Build(ctx, w.root, os.Stderr); err != nil {
		return nil, err
	}
	w.Cluster, err = bed.Up(ctx, bed.Options{
		Root: w.root, Nodes: 3, NodeCPU: 16, NodeMemory: "16Gi", Metrics: 5 * time.Second, Progress: os.Stderr,
		Rights: []string{"placeholders"}, // explain assumes this right
	})
	if err != nil {
		return nil, err
	}
	ends = append(ends, w.Down)
	if err := w.Install(ctx, filepath.Join(w.root, "deploy")); err != nil {
		return nil, err
	}
	if err := w.ApplyYAML(ctx, "", reader); err != nil {
		return nil, err
	}
	if w.reader, err = w.Identity(ctx, "reader"); err != nil {
		return nil, err
	}
	admission, err := w.RunAdmission(ctx, w.binary)
	if err != nil {
		return nil, err
	}
	ends = append(ends, admission.Stop)
	return w, nil
}

// A result is what a run of podfit wrote.
type result struct {
	out, errs string
	code      int
}

// podfit runs podfit as the reader.
func (w *world) podfit(ctx context.Context, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.binary, append(args, "--kubeconfig="+w.reader)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "PROMETHEUS_URL=", "XDG_CACHE_HOME="+w.Dir)
	err := cmd.Run()
	r := result{out: out.String(), errs: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.errs = -1, err.Error()
	}
	return r
}

// eventually polls until check returns nil.
func eventually(t *testing.T, what string, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, check); err != nil {
		t.Fatalf("%s, within %v: %v", what, within, err)
	}
}
