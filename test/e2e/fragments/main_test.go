// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"bytes"
	"context"
	"encoding/json"
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

const nodeCount = 12

// A world is a cluster with podfit's objects and its admission controller. No updater evicts pods. The reader has the rights to get and list only, and the
// mover also those that docs/capacity.md names.
type world struct {
	*bed.Cluster
	binary        string
	reader, mover string // kubeconfigs
}

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
subjects: [{kind: ServiceAccount, name: reader, namespace: kube-system}, {kind: ServiceAccount, name: mover, namespace: kube-system}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mover, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mover}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [patch]}
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mover}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mover}
subjects: [{kind: ServiceAccount, name: mover, namespace: kube-system}]
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
	root, err := bed.Root()
	if err != nil {
		return nil, err
	}
	w = &world{}
	if w.binary, err = bed.Build(ctx, root, os.Stderr); err != nil {
		return nil, err
	}
	w.Cluster, err = bed.Up(ctx, bed.Options{Root: root, Nodes: nodeCount, NodeCPU: 8, NodeMemory: "32Gi", Metrics: 15 * time.Second, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	ends = append(ends, w.Down)
	if err := w.Install(ctx, filepath.Join(root, "deploy")); err != nil {
		return nil, err
	}
	if err := w.ApplyYAML(ctx, "", reader+classes); err != nil {
		return nil, err
	}
	if w.reader, err = w.Identity(ctx, "reader"); err != nil {
		return nil, err
	}
	if w.mover, err = w.Identity(ctx, "mover"); err != nil {
		return nil, err
	}
	admission, err := w.RunAdmission(ctx, w.binary)
	if err != nil {
		return nil, err
	}
	ends = append(ends, admission.Stop)
	return w, nil
}

// A plan is one of the two plans of the report.
type plan struct {
	Proven bool
	Node   string
	Moves  []struct{ Pod, From, To string }
}

func (p *plan) String() string {
	text := fmt.Sprintf("node %q, proven %t", p.Node, p.Proven)
	for _, m := range p.Moves {
		text += fmt.Sprintf("; %s %s→%s", m.Pod, m.From, m.To)
	}
	return text
}

// plans runs the command as its user would, and returns the plan that frees a node, and with a size the one that makes room. All nodes are in one pool.
func (w *world) plans(t *testing.T, size string) (empty, room *plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args := []string{"capacity", "--kubeconfig=" + w.reader, "--fragments", "-o", "json"}
	if size != "" {
		args = append(args, "--for", size)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("podfit %v: %v: %s", args, err, errs.String())
	}
	var doc struct {
		Fragments []struct {
			FreeNode plan
			MakeRoom *plan
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Fragments) != 1 {
		t.Fatalf("error %v, want one pool, got %s", err, out.String())
	}
	return &doc.Fragments[0].FreeNode, doc.Fragments[0].MakeRoom
}

// eventually polls until check returns nil.
func eventually(t *testing.T, what string, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 100*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
