// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// namespace is the namespace of the workloads.
const namespace = "apps"

// account is the service account of podfit.
const account = "podfit"

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: end-to-end tests are not short")
		return
	}
	os.Exit(m.Run())
}

// A world is a cluster with one node, Karpenter and podfit.
type world struct {
	*testing.T
	*bed.Cluster
	binary  string
	witness *bed.Witness
	podfit  *bed.Podfit
	fleet   *fleet
	began   time.Time
}

// newWorld starts a cluster with a node of 4 cores, Karpenter with a NodePool, and podfit. The pods of the NodePool may have a number of cores in total.
func newWorld(t *testing.T, limit int) *world {
	t.Helper()
	w := &world{T: t}
	root, err := bed.Root()
	w.must(err)
	w.binary, err = bed.Build(t.Context(), root, os.Stderr)
	w.must(err)
	tool, err := bed.BuildCluster(t.Context(), root, os.Stderr, bed.KarpenterPart)
	w.must(err)
	w.Cluster, err = bed.Up(t.Context(), bed.Options{
		Root: root, Tool: tool, Nodes: 1, NodeCPU: 4, NodeMemory: "8Gi", Metrics: 5 * time.Second, Audit: true, Rights: []string{"placeholders"}, Progress: os.Stderr,
	})
	w.must(err)
	t.Cleanup(func() {
		if err := w.Down(); err != nil {
			t.Error(err)
		}
	})
	w.began = time.Now()
	for _, folder := range []string{"deploy", "deploy/all-in-one"} {
		w.must(w.Install(t.Context(), filepath.Join(root, folder)))
	}
	w.witness, err = w.Witness(t.Context())
	w.must(err)
	t.Cleanup(w.judge)
	w.startKarpenter(root, filepath.Join(filepath.Dir(tool), "karpenter"))
	w.apply(nodePool(limit), "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	w.eventually("the namespace has the service account of pods", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	w.startPodfit()
	return w
}

// startKarpenter installs the CustomResourceDefinitions of Karpenter, and starts it with an account that may do everything.
func (w *world) startKarpenter(root, executable string) {
	w.Helper()
	list := exec.CommandContext(w.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter")
	list.Dir = filepath.Join(root, "localcluster", "karpenter")
	list.Stderr = os.Stderr
	module, err := list.Output()
	w.must(err)
	for _, folder := range []string{"pkg/apis/crds", "kwok/apis/crds"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), folder, "*.yaml"))
		w.must(err)
		if len(files) == 0 {
			w.Fatalf("Karpenter has no CustomResourceDefinitions in %s", folder)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			w.must(err)
			w.must(w.ApplyYAML(w.Context(), "", string(text)))
		}
	}
	types := filepath.Join(w.Dir, "instance-types.json")
	w.must(os.WriteFile(types, []byte(instanceTypes()), 0o600))
	port, err := bed.FreePort()
	w.must(err)
	metrics, err := bed.FreePort()
	w.must(err)
	p, err := bed.Start(bed.Command{
		Name: "karpenter", Path: executable, Log: filepath.Join(w.Dir, "karpenter.log"),
		Env: []string{
			"KUBERNETES_SERVICE_HOST=", "KUBECONFIG=" + w.Kubeconfig, "DISABLE_LEADER_ELECTION=true", "KARPENTER_SERVICE=karpenter", "SYSTEM_NAMESPACE=" + bed.Namespace,
			"INSTANCE_TYPES_FILE_PATH=" + types, fmt.Sprintf("HEALTH_PROBE_PORT=%d", port), fmt.Sprintf("METRICS_PORT=%d", metrics),
		},
	})
	w.must(err)
	w.fleet = newFleet(w)
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("karpenter\n%s", p.Tail(80))
		}
		if err := p.Stop(); err != nil {
			w.Error(err)
		}
		w.fleet.end()
	})
	w.eventually("Karpenter is ready", time.Minute, func(ctx context.Context) error {
		if !p.Running() {
			w.Fatalf("Karpenter exited: %v", p.Err())
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return err
	})
}

// startPodfit starts all components of podfit in one process, with short intervals and otherwise default flags.
func (w *world) startPodfit() {
	w.Helper()
	serving, err := bed.Serving()
	w.must(err)
	p, err := w.Cluster.Run(w.Context(), w.binary, bed.All().With(serving...).With("--recommender-interval=5s", "--updater-interval=5s"))
	w.must(err)
	w.podfit = p
	w.Cleanup(func() {
		if w.Failed() && w.podfit == p {
			w.report()
		}
		if err := p.Stop(); err != nil {
			w.Error(err)
		}
	})
	w.eventually("podfit is healthy", time.Minute, p.Healthy)
	w.eventually("the webhook is registered", time.Minute, w.Registered)
}

// restartPodfit starts podfit again. So it reads at once which nodes can be added, instead of within five minutes.
func (w *world) restartPodfit() {
	w.Helper()
	w.must(w.podfit.Stop())
	w.startPodfit()
}

// judge fails the test for violations of the invariants.
func (w *world) judge() {
	ctx, cancel := bed.WithPatience(context.Background(), time.Minute)
	defer cancel()
	log, err := w.witness.Log(ctx)
	if err != nil {
		w.Error(err)
		return
	}
	limits := invariant.DefaultLimits()
	limits.Fresh = 20 * time.Minute
	for _, v := range invariant.Judge(log, limits) {
		w.Errorf("invariant violated:\n%v", v)
	}
}

// report logs the state of the cluster after a failure.
func (w *world) report() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if pods, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range pods.Items {
			p := &pods.Items[i]
			w.Logf("pod %s %s on %q requests %v", p.Name, p.Status.Phase, p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests)
		}
	}
	if nodes, err := w.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		for i := range nodes.Items {
			n := &nodes.Items[i]
			w.Logf("node %s taints %v capacity %v conditions %v", n.Name, n.Spec.Taints, n.Status.Capacity, n.Status.Conditions)
		}
	}
	if es, err := w.CoreV1().Events("").List(ctx, metav1.ListOptions{}); err == nil {
		for _, e := range es.Items {
			w.Logf("event %s %s %s/%s: %s", e.LastTimestamp.UTC().Format(time.TimeOnly), e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
	w.Logf("podfit\n%s", w.podfit.Tail(60))
}

// must fails the test for an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// apply applies manifests.
func (w *world) apply(manifests ...string) {
	w.Helper()
	for _, m := range manifests {
		w.must(w.ApplyYAML(w.Context(), namespace, m))
	}
}

// eventually polls until check returns nil.
func (w *world) eventually(what string, within time.Duration, check func(context.Context) error) {
	w.Helper()
	ctx, cancel := bed.WithPatience(w.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, check); err != nil {
		w.Fatalf("%s, within %v: %v", what, within, err)
	}
}

// always checks for a while that check returns nil.
func (w *world) always(what string, during time.Duration, check func(context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), during)
	defer cancel()
	var wrong error
	if err := bed.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			wrong = err
			return nil
		}
		return errors.New("check has not failed")
	}); err == nil {
		w.Fatalf("%s: %v", what, wrong)
	}
}

// ran runs a command of podfit as an administrator, and returns its output.
func (w *world) ran(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.binary, append(args, "--kubeconfig", w.Kubeconfig)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "PROMETHEUS_URL=")
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("podfit %s: %w: %s", args[0], err, errs.String())
	}
	return out.String(), nil
}

// pods returns the pods of a workload that are not being deleted.
func (w *world) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	return w.podsWith(ctx, "app="+app)
}

// placeholders returns the placeholder pods.
func (w *world) placeholders(ctx context.Context) ([]corev1.Pod, error) {
	return w.podsWith(ctx, "podfit.dev/placeholder=true")
}

func (w *world) podsWith(ctx context.Context, selector string) (out []corev1.Pod, err error) {
	l, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	for i := range l.Items {
		if l.Items[i].DeletionTimestamp == nil {
			out = append(out, l.Items[i])
		}
	}
	return out, nil
}

// sized returns an error unless all pods of a workload are ready and request an amount of CPU.
func (w *world) sized(ctx context.Context, app string, replicas int, cpu string) error {
	pods, err := w.pods(ctx, app)
	if err != nil {
		return err
	}
	if len(pods) != replicas {
		return fmt.Errorf("%d of %d pods of %s exist", len(pods), replicas, app)
	}
	for i := range pods {
		p := &pods[i]
		ready := false
		for _, c := range p.Status.Conditions {
			ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		if got := p.Spec.Containers[0].Resources.Requests.Cpu(); !ready || got.String() != cpu {
			return fmt.Errorf("pod %s requests %s, is ready: %t", p.Name, got, ready)
		}
	}
	return nil
}

// scale sets the replicas of a Deployment.
func (w *world) scale(app string, replicas int) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, replicas)
	_, err := w.AppsV1().Deployments(namespace).Patch(w.Context(), app, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}
