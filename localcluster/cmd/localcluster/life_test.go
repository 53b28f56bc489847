// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"podfit.dev/podfit/localcluster/internal/launch"
)

// TestCluster_wholeLife_worksUntilItEnds starts a cluster, changes it, and stops it in several ways. If the executables are
// missing, it builds them, which takes longer than the default test timeout: run localcluster build first, or set -timeout.
func TestCluster_wholeLife_worksUntilItEnds(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "localcluster")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	state := t.TempDir()

	c := launchCluster(t, binary, state)
	t.Run("pods run and have metrics", c.podsRunAndHaveMetrics)
	t.Run("nodes report their memory pressure", c.memoryPressure)
	t.Run("resize in place", c.resizeInPlace)
	t.Run("resize is deferred while the node is full", c.deferred)
	t.Run("a memory limit below the usage is refused", c.decreaseRefused)
	t.Run("a container above its memory limit is OOM killed", c.oomKilled)
	t.Run("jobs complete", c.jobsComplete)
	t.Run("users have the rights of their groups", c.users)
	t.Run("the audit log follows its policy", c.auditLog)
	t.Run("the API server restarts", c.apiServerComesBack)
	t.Run("nodes restart", c.nodesComeBack)
	if err := c.end(syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: got error %v, want exit code 0", err)
	}
	if _, err := os.Stat(c.ready); !os.IsNotExist(err) {
		t.Error("the ready file was not removed")
	}

	c = launchCluster(t, binary, state)
	t.Run("objects survive a restart", c.objectsSurvive)
	c.kill(c.part("kube-scheduler").PID, syscall.SIGKILL)
	if err := c.ended(); err == nil {
		t.Error("after the crash of a part: got exit code 0, want an error")
	}
	if out := c.output(); !strings.Contains(out, "kube-scheduler exited unexpectedly") {
		t.Errorf("after the crash of a part the output is:\n%s", out)
	}

	c = launchCluster(t, binary, state)
	if err := c.end(syscall.SIGKILL); err == nil {
		t.Error("after SIGKILL: got exit code 0")
	}
}

func (c *cluster) podsRunAndHaveMetrics(t *testing.T) {
	nodes, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 || !nodes.Items[0].Status.Allocatable.Cpu().Equal(resource.MustParse("1900m")) {
		t.Fatalf("nodes: %v, %v", nodes.Items, err)
	}
	c.create(t, podOf("web", "", "cpu=250m memory=200Mi"), "100m", "300Mi")
	eventually(t, "metrics of the pod", func() error {
		var m struct {
			Containers []struct{ Usage v1.ResourceList }
		}
		text, err := c.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web").DoRaw(t.Context())
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		cpu := m.Containers[0].Usage.Cpu().MilliValue()
		memory := m.Containers[0].Usage.Memory().Value()
		if cpu < 240 || cpu > 260 || memory != 200<<20 {
			return fmt.Errorf("%dm CPU and %d bytes", cpu, memory)
		}
		return nil
	})
	log, err := c.CoreV1().Pods("default").GetLogs("web", &v1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(log), "starts") {
		t.Errorf("log: %q, %v", log, err)
	}
}

// memoryPressure sets the pressure of a pod, which is that of its node.
func (c *cluster) memoryPressure(t *testing.T) {
	for node := range 2 {
		if at, p := c.pressure(t, node); p.Avg60 != 0 || p.Total != 0 || time.Since(at).Abs() > time.Minute {
			t.Errorf("pressure %+v of node %d at %v, which has enough memory", p, node+1, at)
		}
	}
	pod := c.create(t, podOf("reclaiming", "node-2", "pressure=0.8"), "10m", "100Mi")
	eventually(t, "the pressure of its node", func() error {
		if _, p := c.pressure(t, 1); p.Avg60 < 10 || p.Avg60 > 80 || p.Avg10 < p.Avg60 || p.Total < 6e6 {
			return fmt.Errorf("pressure %+v", p)
		}
		return nil
	})
	if _, p := c.pressure(t, 0); p.Total != 0 {
		t.Errorf("pressure %+v of the other node", p)
	}
	if err := c.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the pressure", func() error {
		if _, p := c.pressure(t, 1); p.Avg10 > p.Avg60/2 {
			return fmt.Errorf("pressure %+v", p)
		}
		return nil
	})
}

// A stall is the memory pressure of a node: microseconds, and percent.
type stall struct{ Total, Avg10, Avg60 float64 }

// pressure returns the memory pressure in the summary of a kubelet, and its time.
func (c *cluster) pressure(t *testing.T, node int) (time.Time, stall) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(c.info.ClientCert, c.info.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(c.info.CA)
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("read %s: %v", c.info.CA, err)
	}
	kubelet := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots}, DisableKeepAlives: true}}
	reply, err := kubelet.Get(fmt.Sprintf("https://127.0.0.1:%d/stats/summary?only_cpu_and_memory=true", c.info.Ports.Kubelets[node]))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	var summary struct {
		Node struct {
			Memory struct {
				Time time.Time
				PSI  *struct{ Full stall }
			}
		}
	}
	err = json.NewDecoder(reply.Body).Decode(&summary)
	if err != nil || summary.Node.Memory.PSI == nil {
		t.Fatalf("%s: %+v, error %v", reply.Status, summary, err)
	}
	return summary.Node.Memory.Time, summary.Node.Memory.PSI.Full
}

func (c *cluster) resizeInPlace(t *testing.T) {
	before := c.create(t, podOf("grow", "", "cpu=900m memory=100Mi"), "100m", "200Mi")
	c.resize(t, "grow", "200m", "400Mi")
	eventually(t, "the resize", func() error {
		p := c.pod(t, "grow")
		s := p.Status.ContainerStatuses[0]
		if s.Resources == nil || s.Resources.Limits.Memory().String() != "400Mi" || s.Resources.Requests.Cpu().String() != "200m" || s.AllocatedResources.Cpu().String() != "200m" {
			return fmt.Errorf("status: %+v", s)
		}
		if p.UID != before.UID || s.RestartCount != 0 || s.ContainerID != before.Status.ContainerStatuses[0].ContainerID {
			t.Fatalf("not resized in place: %+v", s)
		}
		return nil
	})
	if r := c.reportOf(t, "grow"); r.MemoryLimit != 400<<20 || r.CPUShares != 204 {
		t.Errorf("resources of the container: %+v", r)
	}
	err := c.tryResize(t, "grow", "6", "400Mi")
	if err == nil || !strings.Contains(err.Error(), "node didn't have enough allocatable resources") {
		t.Errorf("resize above the size of the node: got error %v", err)
	}
}

func (c *cluster) deferred(t *testing.T) {
	c.create(t, podOf("blocker", "node-2", ""), "1500m", "100Mi")
	c.create(t, podOf("waiting", "node-2", ""), "100m", "100Mi")
	c.resize(t, "waiting", "1", "100Mi")
	eventually(t, "Deferred", func() error { return c.condition(t, "waiting", v1.PodResizePending, "Deferred") })
	if err := c.CoreV1().Pods("default").Delete(t.Context(), "blocker", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the resize after capacity is free", func() error {
		if got := c.pod(t, "waiting").Status.ContainerStatuses[0].Resources.Requests.Cpu().String(); got != "1" {
			return fmt.Errorf("CPU request is %s", got)
		}
		return nil
	})
}

func (c *cluster) decreaseRefused(t *testing.T) {
	c.create(t, podOf("big", "", "memory=200Mi"), "100m", "400Mi")
	eventually(t, "the memory usage", func() error {
		if r := c.reportOf(t, "big"); r.Memory != 200<<20 {
			return fmt.Errorf("%d bytes in use", r.Memory)
		}
		return nil
	})
	c.resize(t, "big", "100m", "100Mi")
	eventually(t, "the refusal", func() error { return c.condition(t, "big", v1.PodResizeInProgress, "Error") })
	if s := c.pod(t, "big").Status.ContainerStatuses[0]; s.Resources.Limits.Memory().String() != "400Mi" || s.RestartCount != 0 {
		t.Errorf("status: %+v", s)
	}
}

func (c *cluster) oomKilled(t *testing.T) {
	c.create(t, podOf("hog", "", "memory=ramp(50Mi,300Mi,4s)"), "100m", "200Mi")
	eventually(t, "OOM kills", func() error {
		s := c.pod(t, "hog").Status.ContainerStatuses[0]
		last := s.LastTerminationState.Terminated
		if s.RestartCount < 2 || last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 {
			return fmt.Errorf("status: %+v", s)
		}
		return nil
	})
	if r := c.reportOf(t, "hog"); r.OOMKills < 2 {
		t.Errorf("%d OOM kills counted", r.OOMKills)
	}
}

func (c *cluster) jobsComplete(t *testing.T) {
	p := podOf("job", "", "exit=after=1s,code=0")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	fill(p, "100m", "100Mi")
	if _, err := c.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "completion", func() error {
		if phase := c.pod(t, "job").Status.Phase; phase != v1.PodSucceeded {
			return fmt.Errorf("phase is %s", phase)
		}
		return nil
	})
}

func (c *cluster) users(t *testing.T) {
	text := c.get(t, "/kubeconfig?user=system:serviceaccount:kube-system:metrics-server&group=system:serviceaccounts&group=system:authenticated")
	limited := client(t, text)
	if _, err := limited.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("pods: %v", err)
	}
	if _, err := limited.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("secrets: %v", err)
	}
}

// auditPolicy logs deletions of configmaps, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [delete], resources: [{group: "", resources: [configmaps]}]}
- {level: None}
`

func (c *cluster) auditLog(t *testing.T) {
	if err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), "nothing", metav1.DeleteOptions{}); err == nil {
		t.Fatal("the configmap exists")
	}
	eventually(t, "the line in the audit log", func() error {
		text, err := os.ReadFile(c.info.AuditLog)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var last struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Name string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal([]byte(lines[0]), &last); err != nil {
			return err
		}
		if len(lines) != 1 || last.Verb != "delete" || last.User.Username != "admin" || last.ObjectRef.Name != "nothing" || last.ResponseStatus.Code != 404 {
			return fmt.Errorf("audit log:\n%s", text)
		}
		return nil
	})
}

func (c *cluster) apiServerComesBack(t *testing.T) {
	c.post(t, "/parts/kube-apiserver/stop")
	if c.part("kube-apiserver").State != "stopped" {
		t.Error("the API server still runs")
	}
	if _, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the API server still responds")
	}
	c.post(t, "/parts/kube-apiserver/start")
	c.create(t, podOf("after", "", ""), "10m", "50Mi")
	if s := c.pod(t, "grow").Status.ContainerStatuses[0]; s.RestartCount != 0 {
		t.Errorf("container created before the restart: %+v", s)
	}
}

func (c *cluster) nodesComeBack(t *testing.T) {
	id := c.pod(t, "grow").Status.ContainerStatuses[0].ContainerID
	c.post(t, "/parts/nodes/kill")
	c.post(t, "/parts/nodes/start")
	eventually(t, "a new container of the pod", func() error {
		p := c.pod(t, "grow")
		if s := p.Status.ContainerStatuses[0]; s.ContainerID == id || !s.Ready || s.Resources.Limits.Memory().String() != "400Mi" {
			return fmt.Errorf("status: %+v", s)
		}
		return nil
	})
}

func (c *cluster) objectsSurvive(t *testing.T) {
	eventually(t, "the pod created before the restart", func() error {
		if s := c.pod(t, "web").Status.ContainerStatuses[0]; !s.Ready {
			return fmt.Errorf("status: %+v", s)
		}
		return nil
	})
	c.create(t, podOf("new", "", ""), "10m", "50Mi")
}

// A cluster is one run of `localcluster up`.
type cluster struct {
	*kubernetes.Clientset
	t       *testing.T
	command *exec.Cmd
	exit    chan error
	ready   string
	log     string
	info    launch.Info
}

func launchCluster(t *testing.T, binary, state string) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, exit: make(chan error, 1), ready: filepath.Join(dir, "ready.json"), log: filepath.Join(dir, "log")}
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c.command = exec.Command(binary, "up", "--audit-policy="+policy, "--nodes=2", "--node-cpu=2", "--node-memory=4Gi", "--metric-resolution=2s", "--crash-loop-max=1s", "--state-dir="+state, "--ready-file="+c.ready)
	c.command.Stdout = log
	c.command.Stderr = log
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.exit <- c.command.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of localcluster:\n%s", c.output())
		}
		_ = c.command.Process.Signal(syscall.SIGTERM)
	})
	for {
		select {
		case err := <-c.exit:
			t.Fatalf("it ended with %v:\n%s", err, c.output())
		case <-time.After(100 * time.Millisecond):
		}
		text, err := os.ReadFile(c.ready)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &c.info)
		}
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	kubeconfig, err := os.ReadFile(c.info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c.Clientset = client(t, kubeconfig)
	return c
}

// end sends a signal and returns when all processes have exited.
func (c *cluster) end(s syscall.Signal) error {
	c.t.Helper()
	c.kill(c.command.Process.Pid, s)
	return c.ended()
}

func (c *cluster) ended() error {
	c.t.Helper()
	var err error
	select {
	case err = <-c.exit:
	case <-time.After(time.Minute):
		c.t.Fatal("the cluster did not stop")
	}
	eventually(c.t, "the end of all parts", func() error {
		for _, p := range c.info.Parts {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)); err == nil && !strings.Contains(string(stat), ") Z ") && (strings.Contains(string(stat), "(controlplane") || strings.Contains(string(stat), "(metrics-server")) {
				return fmt.Errorf("%s still runs", p.Name)
			}
		}
		return nil
	})
	return err
}

func (c *cluster) kill(pid int, s syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) output() string {
	text, _ := os.ReadFile(c.log)
	return string(text)
}

func (c *cluster) part(name string) launch.State {
	c.t.Helper()
	var all []launch.State
	if err := json.Unmarshal(c.get(c.t, "/parts"), &all); err != nil {
		c.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s launch.State) bool { return s.Name == name })
	return all[i]
}

type report struct {
	Pod         string
	OOMKills    int
	CPUShares   int64
	Memory      int64 `json:"memoryBytes"`
	MemoryLimit int64 `json:"memoryLimitBytes"`
}

func (c *cluster) reportOf(t *testing.T, pod string) report {
	t.Helper()
	var all []report
	if err := json.Unmarshal(c.get(t, "/containers"), &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Pod == pod {
			return r
		}
	}
	t.Fatalf("no report of %s", pod)
	return report{}
}

func (c *cluster) get(t *testing.T, path string) []byte { return c.call(t, http.MethodGet, path) }
func (c *cluster) post(t *testing.T, path string)       { c.call(t, http.MethodPost, path) }

func (c *cluster) call(t *testing.T, method, path string) []byte {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, c.info.Control+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s, %v", method, path, reply.Status, text, err)
	}
	return text
}

// podOf returns a pod with one container, app, whose demand is given as "cpu=... memory=...".
func podOf(name, node, does string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for _, part := range strings.Fields(does) {
		what, how, _ := strings.Cut(part, "=")
		p.Annotations["sim.podfit.dev/app."+what] = how
	}
	p.Spec.Containers = []v1.Container{{
		Name: "app", Image: "any",
		ReadinessProbe: &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}},
	}}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
	}
	return p
}

func fill(p *v1.Pod, cpu, memory string) {
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("50Mi")},
		Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)},
	}
}

// create creates a pod and waits until it is ready.
func (c *cluster) create(t *testing.T, p *v1.Pod, cpu, memory string) *v1.Pod {
	t.Helper()
	fill(p, cpu, memory)
	eventually(t, "the creation of "+p.Name, func() error {
		_, err := c.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		return err
	})
	eventually(t, p.Name+" to be ready", func() error {
		q := c.pod(t, p.Name)
		if len(q.Status.ContainerStatuses) == 0 || !q.Status.ContainerStatuses[0].Ready || q.Status.ContainerStatuses[0].Resources == nil {
			return fmt.Errorf("status: %+v", q.Status)
		}
		p = q
		return nil
	})
	return p
}

func (c *cluster) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	p, err := c.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *cluster) resize(t *testing.T, name, cpu, memory string) {
	t.Helper()
	if err := c.tryResize(t, name, cpu, memory); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) tryResize(t *testing.T, name, cpu, memory string) error {
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q},"limits":{"memory":%q}}}]}}`, cpu, memory)
	_, err := c.CoreV1().Pods("default").Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	return err
}

func (c *cluster) condition(t *testing.T, name string, kind v1.PodConditionType, reason string) error {
	t.Helper()
	p := c.pod(t, name)
	for _, condition := range p.Status.Conditions {
		if condition.Type == kind && condition.Reason == reason && condition.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("conditions: %+v", p.Status.Conditions)
}

func client(t *testing.T, kubeconfig []byte) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = 100
	config.Burst = 100
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls until the check returns nil, for at most a minute.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited for %s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
