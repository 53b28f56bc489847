// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// deployment has the pods whose usage test/tsdb writes for its first workload.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: w0}
spec:
  replicas: 3
  selector: {matchLabels: {app: w0}}
  template:
    metadata:
      labels: {app: w0}
      annotations: {sim.podfit.dev/app.cpu: 300m, sim.podfit.dev/app.memory: 200Mi}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: test/app, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
`

// stranger is a user who may list pods, but has no right for the proxy.
const stranger = `apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: stranger}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: stranger, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: stranger}
rules:
- {apiGroups: [""], resources: [nodes, services], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: stranger-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: stranger}
subjects: [{kind: ServiceAccount, name: stranger, namespace: kube-system}]
`

// A report is the part of the output of podfit recommend that the tests read.
type report struct {
	Source     string
	Complete   bool
	Notes      []string
	Containers []struct {
		Name, Container, Confidence string
		Provisional                 bool
		Days                        int
		CPU, Memory                 struct{ Request, Target, NewRequest string }
	}
}

// running creates the Deployment in a namespace and waits for its pods.
func (w *world) running(t *testing.T, ns string) {
	t.Helper()
	if err := w.ApplyYAML(t.Context(), "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has the service account of pods", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err := w.ApplyYAML(t.Context(), ns, deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods are ready", time.Minute, func(ctx context.Context) error {
		l, err := w.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for i := range l.Items {
			if isReady(&l.Items[i]) {
				n++
			}
		}
		if n != 3 {
			return fmt.Errorf("%d of 3 pods", n)
		}
		return nil
	})
	t.Cleanup(func() {
		if err := w.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// TestRecommend_prometheusInTheCluster_isReadThroughTheAPIServer finds a real Prometheus by the labels of its Service, and reads it through the
// service proxy of a real API server, with the rights to get and list only.
func TestRecommend_prometheusInTheCluster_isReadThroughTheAPIServer(t *testing.T) {
	w := shared(t)
	w.running(t, "team-0")
	if err := w.ApplyYAML(t.Context(), "", stranger); err != nil {
		t.Fatal(err)
	}
	host, port := prometheus(t, w.root)
	// The API server forwards requests only to addresses of pods, so there is a pod with the address of this machine.
	service := fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: monitoring}
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus-0}
spec: {schedulerName: none, automountServiceAccountToken: false, containers: [{name: prometheus, image: test/app}]}
---
apiVersion: v1
kind: Service
metadata: {name: prometheus-k8s, labels: {app.kubernetes.io/name: prometheus, app.kubernetes.io/component: prometheus}}
spec: {ports: [{name: web, port: 9090, targetPort: %[2]d}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: prometheus-k8s}
subsets: [{addresses: [{ip: %[1]s, targetRef: {kind: Pod, namespace: monitoring, name: prometheus-0}}], ports: [{name: web, port: %[2]d}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: prometheus-k8s-1, labels: {kubernetes.io/service-name: prometheus-k8s}}
addressType: IPv4
endpoints: [{addresses: [%[1]s], conditions: {ready: true}, targetRef: {kind: Pod, namespace: monitoring, name: prometheus-0}}]
ports: [{name: web, port: %[2]d, protocol: TCP}]
`, host, port)
	eventually(t, "the objects of Prometheus are created", time.Minute, func(ctx context.Context) error { // the namespace gets its service account first
		return w.ApplyYAML(ctx, "monitoring", service)
	})
	address := fmt.Sprintf(`{"status":{"podIP":%[1]q,"podIPs":[{"ip":%[1]q}]}}`, host)
	if _, err := w.CoreV1().Pods("monitoring").Patch(t.Context(), "prometheus-0", types.MergePatchType, []byte(address), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	var r result
	eventually(t, "the API server knows the endpoint", time.Minute, func(ctx context.Context) error {
		if r = w.podfit(ctx, "recommend", "-n", "team-0", "--source=prometheus", "--history=2d", "-o=json", "--quiet"); r.code != 0 {
			return fmt.Errorf("exit code %d: %s", r.code, r.errs)
		}
		return nil
	})
	var got report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Source != "Prometheus monitoring/prometheus-k8s" || !got.Complete || len(got.Containers) != 1 {
		t.Fatalf("got %+v", got)
	}
	if c := got.Containers[0]; c.Confidence != "medium" || c.Days < 2 || c.Memory.Target == "" || c.Memory.NewRequest == "64Mi" {
		t.Errorf("got %+v", c)
	}
	again := w.podfit(t.Context(), "recommend", "-n", "team-0", "--history=2d", "-o=json", "--quiet")
	if again.code != 0 || !strings.Contains(again.out, `"source": "Prometheus monitoring/prometheus-k8s"`) {
		t.Errorf("--source auto: exit code %d, %s", again.code, again.errs)
	}

	examplePipelines(t, w)

	identity, err := w.Identity(t.Context(), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	denied := w.as(identity).podfit(t.Context(), "recommend", "-n", "team-0", "--source=prometheus", "--quiet")
	if denied.code != 1 || !strings.Contains(denied.errs, "services") || !strings.Contains(denied.errs, "proxy") || !strings.Contains(denied.errs, "forbidden") {
		t.Errorf("without the right for the proxy: exit code %d, %s", denied.code, denied.errs)
	}
}

// as returns the world with another user.
func (w *world) as(kubeconfig string) *world {
	other := *w
	other.reader = kubeconfig
	return &other
}

// TestRecommend_metricsAPI_isProvisionalAndLowersNothing reads the Metrics API of a real metrics-server.
func TestRecommend_metricsAPI_isProvisionalAndLowersNothing(t *testing.T) {
	w := shared(t)
	w.running(t, "metrics")
	eventually(t, "the Metrics API has the pods", 2*time.Minute, func(ctx context.Context) error {
		data, err := w.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/metrics/pods").DoRaw(ctx)
		if err == nil && strings.Count(string(data), `"window"`) != 3 {
			err = fmt.Errorf("got %s", data)
		}
		return err
	})
	r := w.podfit(t.Context(), "recommend", "-n", "metrics", "--source=metrics", "--for=2m", "-o=json", "--quiet")
	var got report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 {
		t.Fatalf("exit code %d, %v, %s", r.code, err, r.errs)
	}
	if got.Source != "Metrics API" || len(got.Containers) != 1 {
		t.Fatalf("got %+v", got)
	}
	c := got.Containers[0] // it uses three times as much as it requests
	if c.Confidence != "low" || !c.Provisional || c.CPU.Request != "100m" || c.CPU.NewRequest != "100m" || c.Memory.NewRequest != "64Mi" {
		t.Errorf("got %+v", c)
	}
	r = w.podfit(t.Context(), "recommend", "-n", "metrics", "--source=metrics", "--for=2m", "-o=json", "--quiet", "--include-young")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || len(got.Containers) != 1 {
		t.Fatalf("exit code %d, %v, %s", r.code, err, r.errs)
	}
	if c := got.Containers[0]; c.CPU.NewRequest == "100m" || c.Memory.NewRequest == "64Mi" {
		t.Errorf("young numbers are not included: %+v", c)
	}
}

// prometheus starts a Prometheus with two days of usage on an address that the API server connects to, which refuses loopback addresses.
func prometheus(t *testing.T, root string) (host string, port int) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			host = ip.IP.String()
			break
		}
	}
	if host == "" {
		t.Skip("this machine has no address that the API server connects to: it refuses loopback addresses")
	}
	dir := t.TempDir()
	write := exec.CommandContext(t.Context(), "go", "run", ".", "-dir="+filepath.Join(dir, "data"), "-workloads=1", "-days=3", fmt.Sprintf("-end=%d", time.Now().Add(time.Hour).Unix()))
	write.Dir = filepath.Join(root, "test", "tsdb")
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("write the blocks of Prometheus: %v: %s", err, out)
	}
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus")
	build.Dir = filepath.Join(root, "localcluster")
	out, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v", err)
	}
	built := strings.Fields(string(out))
	path := built[slices.IndexFunc(built, func(s string) bool { return strings.HasPrefix(filepath.Base(s), "prometheus-") })]
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if port, err = bed.FreePort(); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(host, fmt.Sprint(port))
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: path, Dir: dir, Log: filepath.Join(dir, "prometheus.log"),
		Args: []string{"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address, "--log.level=warn", "--storage.tsdb.retention.time=1y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "Prometheus is ready", time.Minute, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/-/ready", http.NoBody)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", a.Status)
		}
		return nil
	})
	return host, port
}
