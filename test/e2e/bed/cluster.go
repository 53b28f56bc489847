// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options describe the cluster to start.
type Options struct {
	Root string // of podfit's repository; not used with Executables
	Tool string // path of the local cluster's command; empty: build what is missing
	// Executables is a folder with the exported executables of a local cluster, which are used as they are. Nothing is built.
	Executables string
	Nodes       int
	NodeCPU     int // cores
	NodeMemory  string
	LargeNodes  int           // how many of the nodes, the last ones, have four times as much
	Metrics     time.Duration // scrape interval of metrics-server
	Audit       bool          // write the audit log that Witness needs
	Prometheus  bool          // run Prometheus, which scrapes cAdvisor of the kubelets
	// StateMetrics also runs kube-state-metrics, with podfit's configuration for VPAs. Prometheus scrapes it.
	StateMetrics bool
	Rights       []string  // the components of deploy/rights that Install applies; none: the default rights
	Speed        float64   // seconds of simulated usage per second; 0: 1
	Static       bool      // the kubelets have the static policies of the CPU manager and of the memory manager
	Progress     io.Writer // receives the progress of the build
}

// A Cluster is a running local cluster.
type Cluster struct {
	*Kube
	*Process
	Kubeconfig string // of its administrator
	Prometheus string // URL, "" when there is none
	Targets    string // folder; Prometheus scrapes the targets in its *.json files, in the format of file_sd_configs
	Dir        string // where logs and identities are kept; removed when the cluster stops

	control  string         // URL
	machines machines       // what all machines have in common
	ca       string         // path of the certificate authority
	cert     string         // path of a client certificate that the kubelets accept
	key      string         // path of its key
	kubelets map[string]int // ports by node
	state    string         // URL of kube-state-metrics, "" when there is none
	auditLog string         // path, "" when there is none
	pids     map[Part]int

	rights   []string // Options.Rights
	refusals refusals
}

// startup is how long a cluster may take to become ready, without the build.
const startup = 3 * time.Minute

// Up starts a cluster and returns when it is ready. It builds what is missing unless Options.Tool or Options.Executables is set.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	tool := o.Tool
	switch {
	case o.Executables != "":
		tool = filepath.Join(o.Executables, "localcluster")
	case tool == "":
		var err error
		tool, err = BuildCluster(ctx, o.Root, o.Progress, o.parts()...)
		if err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "podfit-bed-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the cluster: %w", err)
	}
	c := &Cluster{Dir: dir, rights: o.Rights}
	if err := c.up(ctx, tool, o); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// parts returns the parts that the cluster has besides the control plane, as flags of localcluster.
func (o *Options) parts() []string {
	var out []string
	if o.Prometheus {
		out = append(out, PrometheusPart)
	}
	if o.StateMetrics {
		out = append(out, StateMetricsPart)
	}
	return out
}

// The parts of a cluster that not all clusters have, as flags of localcluster.
const (
	PrometheusPart   = "--prometheus"
	StateMetricsPart = "--kube-state-metrics"
)

// KarpenterPart is Karpenter, which is built like a part of the cluster. The tests start it.
const KarpenterPart = "--karpenter"

// BuildCluster builds the executables of the local cluster that are missing or out of date, with those of the given parts. It returns the
// path of the local cluster's command.
func BuildCluster(ctx context.Context, root string, progress io.Writer, parts ...string) (string, error) {
	module := filepath.Join(root, "localcluster")
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./cmd/localcluster", "build"}, parts...)...)
	cmd.Dir = module
	cmd.Stdout = io.Discard
	cmd.Stderr = progress
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the local cluster: %w", err)
	}
	return filepath.Join(root, ".cache", "bin", "localcluster"), nil
}

// BuildUpstream builds the components of upstream's release if they are missing, and returns the folder of their executables.
func BuildUpstream(ctx context.Context, root string, progress io.Writer) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", ".")
	cmd.Dir = filepath.Join(root, "test", "upstream")
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build upstream: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *Cluster) up(ctx context.Context, tool string, o Options) error {
	ready := filepath.Join(c.Dir, "ready.json")
	args := []string{
		"up", "--state-dir=" + filepath.Join(c.Dir, "cluster"), "--ready-file=" + ready,
		"--nodes=" + strconv.Itoa(o.Nodes), "--node-cpu=" + strconv.Itoa(o.NodeCPU), "--node-memory=" + o.NodeMemory,
		"--large-nodes=" + strconv.Itoa(o.LargeNodes), "--metric-resolution=" + o.Metrics.String(),
	}
	if o.Audit {
		policy := filepath.Join(c.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("write the audit policy: %w", err)
		}
		args = append(args, "--audit-policy="+policy)
	}
	args = append(args, o.parts()...)
	if o.StateMetrics {
		args = append(args, "--custom-resource-state="+filepath.Join(o.Root, "deploy", "monitoring", "kube-state-metrics", "config.yaml"))
	}
	if o.Speed > 0 {
		args = append(args, fmt.Sprintf("--speed=%g", o.Speed))
	}
	if o.Static {
		args = append(args, "--cpu-manager=static", "--memory-manager=static")
	}
	module := filepath.Join(o.Root, "localcluster") // the command may build there
	if o.Executables != "" {
		args = append(args, "--executables="+o.Executables)
		module = ""
	}
	p, err := Start(Command{Name: "localcluster", Path: tool, Args: args, Dir: module, Log: filepath.Join(c.Dir, "localcluster.log")})
	if err != nil {
		return err
	}
	c.Process = p
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	var text []byte
	err = Until(ctx, 100*time.Millisecond, func(context.Context) (err error) {
		if text, err = os.ReadFile(ready); err != nil && !p.Running() {
			// The cluster will not become ready.
			text = nil
			err = nil
		}
		return err
	})
	if err != nil || text == nil {
		return fmt.Errorf("start the cluster: %w\n%s", errors.Join(err, p.Err()), p.Tail(40))
	}
	var info struct {
		Kubeconfig, Control, AuditLog, Prometheus, PrometheusTargets, StateMetrics, CA, ClientCert, ClientKey string

		machines

		Nodes []string
		Ports struct{ Kubelets []int }
		Parts []struct {
			Name Part
			PID  int
		}
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("read %s: %w", ready, err)
	}
	c.Kubeconfig = info.Kubeconfig
	c.control = info.Control
	c.Prometheus = info.Prometheus
	c.Targets = info.PrometheusTargets
	c.auditLog = info.AuditLog
	c.machines = info.machines
	c.machines.controlPlane = filepath.Join(filepath.Dir(tool), "controlplane")
	c.ca, c.cert, c.key = info.CA, info.ClientCert, info.ClientKey
	c.state = info.StateMetrics
	c.kubelets = map[string]int{}
	for i, node := range info.Nodes {
		c.kubelets[node] = info.Ports.Kubelets[i]
	}
	c.pids = map[Part]int{}
	for _, part := range info.Parts {
		c.pids[part.Name] = part.PID
	}
	c.Kube, err = NewKube(c.Kubeconfig)
	return err
}

// Down stops the cluster and removes its files.
func (c *Cluster) Down() error {
	var err error
	if c.Process != nil {
		err = c.Process.Stop()
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}

// A Part is a part of the cluster.
type Part string

// The parts that tests stop or read logs of.
const (
	APIServer     Part = "kube-apiserver"
	MetricsServer Part = "metrics-server"
	Controllers   Part = "kube-controller-manager"
	Scheduler     Part = "kube-scheduler"
	Etcd          Part = "etcd"
)

// PartTail returns the last lines of a part's output.
func (c *Cluster) PartTail(p Part, lines int) string {
	return tail(filepath.Join(c.Dir, "cluster", "logs", string(p)+".log"), lines)
}

// PartPID returns the process ID of a part when the cluster was started.
func (c *Cluster) PartPID(p Part) int { return c.pids[p] }

// SignalPart sends a signal to a part that has not been restarted.
func (c *Cluster) SignalPart(p Part, s syscall.Signal) error {
	if err := syscall.Kill(c.pids[p], s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p, err)
	}
	return nil
}

// Parts returns the process IDs of all parts when the cluster was started.
func (c *Cluster) Parts() map[Part]int { return maps.Clone(c.pids) }

// StopPart stops a part and returns when it has exited.
func (c *Cluster) StopPart(ctx context.Context, p Part) error { return c.part(ctx, p, "stop") }

// StartPart starts a stopped part and returns when it is ready.
func (c *Cluster) StartPart(ctx context.Context, p Part) error {
	if p == APIServer {
		defer c.settling(time.Now())
	}
	return c.part(ctx, p, "start")
}

func (c *Cluster) part(ctx context.Context, p Part, do string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.control+"/parts/"+string(p)+"/"+do, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", do, p, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		b, err := io.ReadAll(resp.Body)
		return fmt.Errorf("%s %s: %w", do, p, errors.Join(errors.New(resp.Status+" "+strings.TrimSpace(string(b))), err))
	}
	return nil
}

// Nodes returns the names of the nodes, sorted.
func (c *Cluster) Nodes() []string { return slices.Sorted(maps.Keys(c.kubelets)) }

// ScrapeConfig returns the scrape configurations of a Prometheus that runs beside the cluster, as YAML list items: cAdvisor of all kubelets, and
// kube-state-metrics if it runs.
func (c *Cluster) ScrapeConfig() string {
	var out strings.Builder
	fmt.Fprintf(&out, "- job_name: kubernetes-cadvisor\n  scheme: https\n  metrics_path: /metrics/cadvisor\n  tls_config: {ca_file: %q, cert_file: %q, key_file: %q}\n  static_configs:\n",
		c.ca, c.cert, c.key)
	for _, node := range c.Nodes() {
		fmt.Fprintf(&out, "  - targets: ['127.0.0.1:%d']\n    labels: {instance: %[2]q, node: %[2]q}\n", c.kubelets[node], node)
	}
	if c.state != "" {
		fmt.Fprintf(&out, "- job_name: kube-state-metrics\n  honor_labels: true\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(c.state, "http://"))
	}
	return out.String()
}

// A Usage is what a simulated container uses now.
type Usage struct {
	Namespace, Pod, Container, UID, Node, State string

	Owner       string  // name of the Deployment, StatefulSet, DaemonSet or Job of the pod
	CPU         float64 `json:"cpuCores"`
	Memory      int64   `json:"memoryBytes"`
	MemoryLimit int64   `json:"memoryLimitBytes"` // 0: none
	OOMKills    int     // since the pod was created
}

// Usage returns the usage of all containers, also of those that have exited.
func (c *Cluster) Usage(ctx context.Context) ([]Usage, error) {
	var out []Usage
	if err := c.simulation(ctx, http.MethodGet, "/containers", nil, &out); err != nil {
		return nil, fmt.Errorf("read the usage of containers: %w", err)
	}
	return out, nil
}

// A Scenario says what containers use. The first rule that matches a container applies, unless an annotation of its pod does.
type Scenario struct {
	Rules []Demand `json:"rules"`
}

// A Demand is what the containers with a name use in the pods of an owner, such as a Deployment: expressions of the local cluster.
type Demand struct {
	Namespace string `json:"namespace"`
	Owner     string `json:"owner"`
	Container string `json:"container"`
	CPU       string `json:"cpu"`
	Memory    string `json:"memory"`
}

// Play replaces the scenario. It tries up to three times: the control API forwards the request to the nodes, and cuts off one of a hundred responses.
func (c *Cluster) Play(ctx context.Context, s Scenario) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	for range 3 {
		if err = c.simulation(ctx, http.MethodPut, "/scenario", text, nil); err == nil {
			return nil
		}
	}
	return fmt.Errorf("replace the scenario: %w", err)
}

// simulation sends a request to the control API, and decodes the response into v, unless v is nil.
func (c *Cluster) simulation(ctx context.Context, method, path string, body []byte, v any) error {
	text, err := c.request(ctx, method, path, body)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// request sends a request to the control API, and returns the response.
func (c *Cluster) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.control+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = errors.New(resp.Status + " " + strings.TrimSpace(string(text)))
	}
	return text, err
}
