// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options configure a cluster.
type Options struct {
	Nodes            int
	NodeCPU          int           // cores
	NodeMemory       int64         // bytes
	LargeNodes       int           // how many of the nodes, the last ones, have four times as much
	StateDir         string        // empty: a temporary folder, removed when the cluster stops
	Speed            float64       // scenario seconds per second
	Scenario         string        // path of a scenario file, or empty
	MetricResolution time.Duration // scrape interval of metrics-server
	CrashLoopMax     time.Duration // maximum back-off of crashing containers
	CPUManager       string        // policy of the kubelets' CPU manager: none or static
	MemoryManager    string        // policy of the kubelets' memory manager: none or static
	ControlPort      int           // 0: a free port
	StartTimeout     time.Duration
	Prometheus       bool   // run Prometheus, with the same scrape interval
	StateMetrics     bool   // run kube-state-metrics, which Prometheus scrapes
	CustomResources  string // path of a configuration of kube-state-metrics for custom resources; empty: none
	AuditPolicy      string // path of an audit policy; empty: no audit log
}

// DefaultOptions describe a small cluster in real time.
var DefaultOptions = Options{
	Nodes: 3, NodeCPU: 4, NodeMemory: 8 << 30, Speed: 1,
	MetricResolution: 15 * time.Second, CrashLoopMax: 10 * time.Second, CPUManager: "none", MemoryManager: "none", StartTimeout: 3 * time.Minute,
}

// Validate returns all invalid options.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Nodes >= 0 && o.Nodes <= 100, "number of nodes must be 0 to 100, got %d", o.Nodes)
	check(o.LargeNodes >= 0 && o.LargeNodes <= o.Nodes, "number of large nodes must be 0 to the number of nodes, got %d", o.LargeNodes)
	check(o.NodeCPU >= 1, "node CPU must be at least 1 core, got %d", o.NodeCPU)
	check(o.NodeMemory >= 512<<20, "node memory must be at least 512Mi, got %d bytes", o.NodeMemory)
	check(o.Speed > 0 && o.Speed <= 100000, "speed must be above 0 and at most 100000, got %v", o.Speed)
	check(o.MetricResolution >= 2*time.Second, "metric resolution must be at least 2s, got %v", o.MetricResolution)
	check(o.CrashLoopMax >= time.Second && o.CrashLoopMax <= 5*time.Minute, "maximum crash loop back-off must be 1s to 5m, got %v", o.CrashLoopMax)
	check(o.CPUManager == "none" || o.CPUManager == "static", "CPU manager policy must be none or static, got %q", o.CPUManager)
	check(o.CustomResources == "" || o.StateMetrics, "a configuration for custom resources needs kube-state-metrics")
	check(o.MemoryManager == "none" || o.MemoryManager == "static", "memory manager policy must be none or static, got %q", o.MemoryManager)
	return errors.Join(errs...)
}

// Ports are the ports of the parts on 127.0.0.1. They are stored in the state folder.
type Ports struct {
	Etcd          int   `json:"etcd"`
	EtcdPeer      int   `json:"etcdPeer"`
	APIServer     int   `json:"apiserver"`
	MetricsServer int   `json:"metricsServer"`
	Nodes         int   `json:"nodes"` // of the nodes' control API
	Control       int   `json:"control"`
	Prometheus    int   `json:"prometheus"`
	StateMetrics  int   `json:"stateMetrics"`
	StateHealth   int   `json:"stateMetricsHealth"` // of kube-state-metrics about itself
	Kubelets      []int `json:"kubelets"`
}

// A Cluster is a running cluster.
type Cluster struct {
	Info Info

	options   Options
	out       io.Writer
	temporary bool
	unlock    func()
	ports     []net.Listener // reservations
	ca        *CA
	admin     *api
	parts     []*Part // in start order
	crashed   chan error
	quit      chan struct{}
	server    *http.Server
}

// Info is what clients need to use the cluster. It is written to the ready file.
type Info struct {
	Kubeconfig       string    `json:"kubeconfig"`
	Server           string    `json:"server"`
	Control          string    `json:"control"`
	Prometheus       string    `json:"prometheus,omitempty"`        // URL
	ScrapeTargets    string    `json:"prometheusTargets,omitempty"` // folder; files in it list more scrape targets
	StateMetrics     string    `json:"stateMetrics,omitempty"`      // URL of kube-state-metrics
	AuditLog         string    `json:"auditLog,omitempty"`
	StateDir         string    `json:"stateDir"`
	CA               string    `json:"ca"`
	CAKey            string    `json:"caKey"`
	ServingCert      string    `json:"servingCert"` // for 127.0.0.1 and localhost, signed by the CA
	ServingKey       string    `json:"servingKey"`
	ClientCert       string    `json:"clientCert"` // of an administrator, for the kubelets
	ClientKey        string    `json:"clientKey"`
	Ports            Ports     `json:"ports"`
	Nodes            []string  `json:"nodes"`
	Speed            float64   `json:"speed"`
	Epoch            time.Time `json:"epoch"`
	MetricResolution string    `json:"metricResolution"`
	Launcher         int       `json:"launcherPID"`
	Parts            []State   `json:"parts"`
}

// Up builds what is missing and starts a cluster. It returns when all parts are ready. After an error, nothing is left
// running; otherwise the caller calls Down.
func Up(ctx context.Context, o Options, b *Builder) (*Cluster, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	wanted := []Artifact{ControlPlane, MetricsServer}
	if o.Prometheus {
		wanted = append(wanted, Prometheus)
	}
	if o.StateMetrics {
		wanted = append(wanted, StateMetrics)
	}
	executables, err := b.BuildAll(ctx, wanted...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, out: b.Out, crashed: make(chan error, 16), quit: make(chan struct{}, 1)}
	if err := c.prepare(executables); err != nil {
		c.Down()
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("not ready after %v", o.StartTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		c.Down()
		return nil, err
	}
	return c, nil
}

// Wait returns when the cluster has to stop: nil on request, an error if a part crashed.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.quit:
		return nil
	case err := <-c.crashed:
		return err
	}
}

// Down stops all parts, and removes the state folder if it is temporary.
func (c *Cluster) Down() {
	if c.server != nil {
		c.server.Close()
	}
	for _, names := range [][]string{{"prometheus", "kube-state-metrics", "metrics-server", "nodes", "kube-scheduler", "kube-controller-manager"}, {"kube-apiserver"}, {"etcd"}} {
		var g errgroup.Group
		for _, p := range c.parts {
			if slices.Contains(names, p.Name) {
				g.Go(func() error { p.Stop(); return nil })
			}
		}
		_ = g.Wait()
	}
	c.release() // before another cluster with this state folder chooses the same ports
	if c.unlock != nil {
		c.unlock()
	}
	if c.temporary {
		os.RemoveAll(c.Info.StateDir)
	}
}

// prepare creates the files and determines the command lines of the parts.
func (c *Cluster) prepare(executables map[string]string) error {
	dir := c.options.StateDir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "localcluster-"); err != nil {
			return err
		}
		c.temporary = true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	c.Info.StateDir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if c.unlock, err = tryLock(filepath.Join(dir, "lock")); err != nil {
		return fmt.Errorf("state folder %s is used by another cluster: %w", dir, err)
	}
	if err := c.choosePorts(); err != nil {
		return err
	}
	p := c.Info.Ports
	c.Info.Server = fmt.Sprintf("https://127.0.0.1:%d", p.APIServer)
	c.Info.Control = fmt.Sprintf("http://127.0.0.1:%d", p.Control)
	c.Info.Speed = c.options.Speed
	c.Info.MetricResolution = c.options.MetricResolution.String()
	c.Info.Launcher = os.Getpid()
	for i := range c.options.Nodes {
		c.Info.Nodes = append(c.Info.Nodes, fmt.Sprintf("node-%d", i+1))
	}
	if err := c.chooseEpoch(); err != nil {
		return err
	}
	if err := c.makeIdentities(); err != nil {
		return err
	}
	if err := c.describeNodes(); err != nil {
		return err
	}
	if err := c.describeAudit(); err != nil {
		return err
	}
	c.describeParts(executables[ControlPlane.Name], executables[MetricsServer.Name])
	if c.options.StateMetrics {
		c.describeStateMetrics(executables[StateMetrics.Name])
	}
	if c.options.Prometheus {
		return c.describePrometheus(executables[Prometheus.Name])
	}
	return nil
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.Info.StateDir}, elements...)...)
}

// choosePorts reuses the ports in the state folder if they are free, so that existing kubeconfigs stay valid.
func (c *Cluster) choosePorts() error {
	p := &c.Info.Ports
	if text, err := os.ReadFile(c.path("ports.json")); err == nil {
		if err := json.Unmarshal(text, p); err != nil {
			return fmt.Errorf("read %s: %w", c.path("ports.json"), err)
		}
	}
	if c.options.ControlPort != 0 {
		p.Control = c.options.ControlPort
	}
	p.Kubelets = slices.Grow(p.Kubelets, c.options.Nodes)
	for len(p.Kubelets) < c.options.Nodes {
		p.Kubelets = append(p.Kubelets, 0)
	}
	p.Kubelets = p.Kubelets[:c.options.Nodes]
	wanted := []*int{&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.MetricsServer, &p.Nodes, &p.Control, &p.Prometheus, &p.StateMetrics, &p.StateHealth}
	for i := range p.Kubelets {
		wanted = append(wanted, &p.Kubelets[i])
	}
	for _, port := range wanted {
		err := c.reserve(*port)
		if port == &p.Control && c.options.ControlPort != 0 && err != nil {
			return err
		}
		for try := 0; err != nil; try++ {
			if try == 1000 {
				return fmt.Errorf("find a free port: %w", err)
			}
			*port = firstPort + rand.IntN(lastPort-firstPort)
			err = c.reserve(*port)
		}
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(c.path("ports.json"), text, 0o644)
}

// Ports are chosen below the kernel's range for outgoing connections. In that range an outgoing connection could take the
// port of a stopped part.
const firstPort, lastPort = 20000, 32000

// reserve keeps a port for the parts of this cluster until it ends: seconds pass before a part listens, and it stops listening when it is
// restarted. Until then another cluster, or a test that needs a port, must not choose the same one. An abstract Unix socket belongs to the
// network namespace as ports do, and is gone when its process ends. test/e2e/bed does the same.
func (c *Cluster) reserve(port int) error {
	if port == 0 {
		return errors.New("no port chosen")
	}
	reservation, err := net.Listen("unix", fmt.Sprintf("@podfit-port-%d", port))
	if err != nil {
		return fmt.Errorf("port %d is reserved by another local cluster or test: %w", port, err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		reservation.Close()
		return err
	}
	c.ports = append(c.ports, reservation)
	return l.Close()
}

// release ends the reservation of the ports.
func (c *Cluster) release() {
	for _, reservation := range c.ports {
		reservation.Close()
	}
	c.ports = nil
}

// chooseEpoch reads the start time of the scenario from the state folder, so that its clock continues after a restart.
func (c *Cluster) chooseEpoch() error {
	if text, err := os.ReadFile(c.path("epoch")); err == nil {
		return c.Info.Epoch.UnmarshalText(text)
	}
	c.Info.Epoch = time.Now().UTC().Round(0)
	text, err := c.Info.Epoch.MarshalText()
	if err != nil {
		return err
	}
	return WriteFile(c.path("epoch"), text, 0o644)
}

func (c *Cluster) makeIdentities() error {
	ca, err := openCA(c.path("pki"), "ca")
	if err != nil {
		return err
	}
	front, err := openCA(c.path("pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	accounts, err := openCA(c.path("pki"), "service-accounts") // its key signs tokens
	if err != nil {
		return err
	}
	_ = accounts
	c.ca = ca
	type issue func() (cert, key []byte, err error)
	client := func(ca *CA, user string, groups ...string) issue {
		return func() ([]byte, []byte, error) { return ca.client(user, groups...) }
	}
	for name, issue := range map[string]issue{
		"serving": func() ([]byte, []byte, error) {
			return ca.serving("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "metrics-server.kube-system.svc")
		},
		"front-proxy-client":       client(front, "front-proxy-client"),
		"apiserver-kubelet-client": client(ca, "kube-apiserver-kubelet-client", "system:masters"),
	} {
		cert, key, err := issue()
		if err != nil {
			return err
		}
		if err := errors.Join(WriteFile(c.path("pki", name+".crt"), cert, 0o644), WriteFile(c.path("pki", name+".key"), key, 0o600)); err != nil {
			return err
		}
	}
	c.Info.CA = ca.CertFile
	c.Info.CAKey = ca.KeyFile
	c.Info.ServingCert = c.path("pki", "serving.crt")
	c.Info.ServingKey = c.path("pki", "serving.key")
	c.Info.ClientCert = c.path("pki", "apiserver-kubelet-client.crt")
	c.Info.ClientKey = c.path("pki", "apiserver-kubelet-client.key")
	c.Info.Kubeconfig = c.path("admin.kubeconfig")

	users := map[string][]string{ // by file name: user, groups
		"admin":                   {"admin", "system:masters"},
		"kube-controller-manager": {"system:kube-controller-manager", "system:masters"},
		"kube-scheduler":          {"system:kube-scheduler"},
		"metrics-server":          append([]string{metricsServerUser}, serviceAccountGroups...),
	}
	for _, n := range c.Info.Nodes {
		users[n] = []string{"system:node:" + n, "system:nodes"}
	}
	for name, user := range users {
		cert, key, err := ca.client(user[0], user[1:]...)
		if err != nil {
			return err
		}
		if err := WriteFile(c.path(name+".kubeconfig"), kubeconfig(c.Info.Server, ca.CertPEM, cert, key, user[0]), 0o600); err != nil {
			return err
		}
		if name == "admin" {
			if c.admin, err = newAPI(c.Info.Server, ca.CertPEM, cert, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Kubeconfig returns a kubeconfig for a user with these groups.
func (c *Cluster) Kubeconfig(user string, groups ...string) ([]byte, error) {
	cert, key, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return kubeconfig(c.Info.Server, c.ca.CertPEM, cert, key, user), nil
}

func (c *Cluster) describeNodes() error {
	type m = map[string]any
	scenario := c.options.Scenario
	if scenario != "" {
		var err error
		if scenario, err = filepath.Abs(scenario); err != nil {
			return err
		}
		if _, err := os.Stat(scenario); err != nil {
			return err
		}
	}
	nodes := []m{}
	for i, name := range c.Info.Nodes {
		times := 1
		if i >= c.options.Nodes-c.options.LargeNodes {
			times = 4
		}
		nodes = append(nodes, m{"name": name, "index": i, "times": times, "kubeconfig": c.path(name + ".kubeconfig"), "port": c.Info.Ports.Kubelets[i], "root": c.path("nodes", name)})
	}
	text, err := json.MarshalIndent(m{
		"nodes": nodes, "cores": c.options.NodeCPU, "memory": c.options.NodeMemory,
		"clock": m{"epoch": c.Info.Epoch, "speed": c.options.Speed}, "scenario": scenario,
		"servingCert": c.Info.ServingCert, "servingKey": c.Info.ServingKey, "clientCA": c.Info.CA,
		"crashLoopMax": c.options.CrashLoopMax.String(), "cpuManager": c.options.CPUManager,
		"memoryManager": c.options.MemoryManager, "controlPort": c.Info.Ports.Nodes,
	}, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(c.path("nodes.json"), text, 0o644)
}

// describeAudit resolves the path of the audit policy and sets the path of the audit log.
func (c *Cluster) describeAudit() error {
	if c.options.AuditPolicy == "" {
		return nil
	}
	var err error
	if c.options.AuditPolicy, err = filepath.Abs(c.options.AuditPolicy); err != nil {
		return err
	}
	if _, err := os.Stat(c.options.AuditPolicy); err != nil {
		return fmt.Errorf("read the audit policy: %w", err)
	}
	c.Info.AuditLog = c.path("logs", "audit.log")
	return nil
}

func (c *Cluster) describeParts(controlplane, metricsserver string) {
	p := c.Info.Ports
	pki := func(name string) string { return c.path("pki", name) }
	etcd := fmt.Sprintf("http://127.0.0.1:%d", p.Etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", p.EtcdPeer)

	c.part("etcd", 5*time.Second, c.answers(etcd+"/health"), controlplane, "etcd",
		"--name=localcluster", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=localcluster="+peer, "--force-new-cluster="+fmt.Sprint(exists(c.path("etcd", "member"))),
		"--log-level=warn", "--quota-backend-bytes=1073741824", "--auto-compaction-mode=periodic", "--auto-compaction-retention=30m")

	apiserver := []string{controlplane, "kube-apiserver",
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.APIServer),
		"--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", // the API server refuses to advertise 127.0.0.1
		"--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=Node,RBAC", "--allow-privileged",
		"--tls-cert-file=" + c.Info.ServingCert, "--tls-private-key-file=" + c.Info.ServingKey, "--client-ca-file=" + c.Info.CA,
		"--kubelet-certificate-authority=" + c.Info.CA, "--kubelet-client-certificate=" + c.Info.ClientCert,
		"--kubelet-client-key=" + c.Info.ClientKey, "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + pki("service-accounts.key"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"), "--proxy-client-key-file=" + pki("front-proxy-client.key"),
		"--profiling=false"}
	if c.options.AuditPolicy != "" {
		// Blocking: the line of a request is in the file before its response is sent.
		apiserver = append(apiserver, "--audit-policy-file="+c.options.AuditPolicy, "--audit-log-path="+c.Info.AuditLog,
			"--audit-log-mode=blocking", "--audit-log-maxsize=2000")
	}
	c.part("kube-apiserver", 2*time.Second, func(ctx context.Context) error { return c.admin.do(ctx, http.MethodGet, "/readyz", "", nil, nil) },
		apiserver...)

	c.part("kube-controller-manager", 3*time.Second, func(ctx context.Context) error {
		return c.admin.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	}, controlplane, "kube-controller-manager",
		"--kubeconfig="+c.path("kube-controller-manager.kubeconfig"), "--secure-port=0", "--leader-elect=false",
		"--controllers=*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller",
		"--service-account-private-key-file="+pki("service-accounts.key"), "--root-ca-file="+c.Info.CA,
		"--use-service-account-credentials=false", "--kube-api-qps=2000", "--kube-api-burst=4000", "--profiling=false")

	c.part("kube-scheduler", 3*time.Second, nil, controlplane, "kube-scheduler",
		"--kubeconfig="+c.path("kube-scheduler.kubeconfig"), "--secure-port=0", "--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false")

	c.part("nodes", 3*time.Second, func(ctx context.Context) error {
		for _, n := range c.Info.Nodes {
			if err := c.admin.is(ctx, "/api/v1/nodes/"+n, "Ready"); err != nil {
				return err
			}
		}
		return nil
	}, controlplane, "nodes", "--config="+c.path("nodes.json"))

	kubeconfig := c.path("metrics-server.kubeconfig")
	c.part("metrics-server", 3*time.Second, func(ctx context.Context) error {
		return c.admin.is(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io", "Available")
	}, metricsserver,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.MetricsServer),
		"--tls-cert-file="+c.Info.ServingCert, "--tls-private-key-file="+c.Info.ServingKey,
		"--kubelet-certificate-authority="+c.Info.CA, "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP",
		"--metric-resolution="+c.options.MetricResolution.String(),
		"--kubelet-request-timeout="+min(10*time.Second, c.options.MetricResolution/2).String(), "--profiling=false")
}

func (c *Cluster) part(name string, grace time.Duration, ready func(context.Context) error, command ...string) {
	c.parts = append(c.parts, &Part{Name: name, Log: c.path("logs", name+".log"), command: command, ready: ready, grace: grace, crashed: c.crashed})
}

// find returns the part with that name.
func (c *Cluster) find(name string) (*Part, error) {
	var names []string
	for _, p := range c.parts {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("unknown part %q, must be one of %s", name, strings.Join(names, ", "))
}

// start starts the cluster. It fails if a part crashes.
func (c *Cluster) start(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case err := <-c.crashed:
			fail(err)
			c.crashed <- err
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	for _, p := range c.parts[:2] { // etcd and the API server; all others need them
		if err := c.startPart(ctx, began, p); err != nil {
			return err
		}
	}
	if err := c.furnish(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range c.parts[2:] {
		g.Go(func() error { return c.startPart(ctx, began, p) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.Info.Parts = c.states()
	return c.serve()
}

func (c *Cluster) startPart(ctx context.Context, began time.Time, p *Part) error {
	if err := p.Start(); err != nil {
		return err
	}
	if err := p.Ready(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%5.1fs %s\n", time.Since(began).Seconds(), p.Name)
	return nil
}

// furnish creates the objects that the parts need at startup.
func (c *Cluster) furnish(ctx context.Context) error {
	for _, n := range c.Info.Nodes {
		if err := c.admin.create(ctx, "/api/v1/nodes", node(n)); err != nil {
			return err
		}
	}
	for path, object := range metricsServerObjects(c.Info.Ports.MetricsServer, c.ca.CertPEM) {
		// The API server creates the namespace kube-system shortly after it is ready.
		if err := wait(ctx, path, func(ctx context.Context) error { return c.admin.apply(ctx, path, object) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) states() []State {
	var all []State
	for _, p := range c.parts {
		all = append(all, p.State())
	}
	return all
}

// answers returns a readiness check that sends a GET request without TLS.
func (c *Cluster) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		reply, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, reply.Status)
		}
		return nil
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
