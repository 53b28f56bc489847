// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Namespace is the namespace of podfit's service accounts and leases.
const Namespace = "kube-system"

// Root returns the folder of podfit's repository: the working directory or a folder above it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(b), "\n"), "module podfit.dev/podfit") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find podfit's repository: the working directory is not inside it")
		}
		dir = up
	}
}

// Build builds podfit with the flags of make build and returns the path of the binary. It does not change bin/.
func Build(ctx context.Context, root string, progress io.Writer) (string, error) {
	path := filepath.Join(root, ".cache", "bin", "podfit")
	return path, goBuild(ctx, root, path, progress)
}

// BuildShifted builds podfit with a clock that differs from that of the machine by the seconds in the environment variable ClockShift, and returns the
// path of the binary. The first build compiles all packages, because all import package runtime.
func BuildShifted(ctx context.Context, root string, progress io.Writer) (string, error) {
	overlay := exec.CommandContext(ctx, filepath.Join(root, "tools", "test-clock"), "--overlay")
	overlay.Stderr = progress
	file, err := overlay.Output()
	if err != nil {
		return "", fmt.Errorf("write the overlay with a shifted clock: %w", err)
	}
	path := filepath.Join(root, ".cache", "bin", "podfit-shifted")
	return path, goBuild(ctx, root, path, progress, "-overlay="+strings.TrimSpace(string(file)))
}

// ClockShift is the name of the environment variable that BuildShifted describes.
const ClockShift = "PODFIT_CLOCK_SHIFT"

// goBuild builds the main package in a module's folder.
func goBuild(ctx context.Context, module, path string, progress io.Writer, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", path, ".")...)
	cmd.Dir = module
	cmd.Stdout = progress
	cmd.Stderr = progress
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", path, err)
	}
	return nil
}

// installed reports whether podfit needs an object of deploy/ when it runs outside the cluster. The other objects would start it
// inside.
func installed(o *unstructured.Unstructured) bool {
	switch o.GroupVersionKind().Group {
	case "apiextensions.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io":
		return true
	case "":
		return o.GetKind() == "ServiceAccount" || o.GetKind() == "Namespace" || o.GetKind() == "Secret"
	}
	return false
}

// Install applies podfit's CRDs, service accounts, RBAC rules and webhook objects from deploy/, the files that users install, with the
// components of deploy/rights in Options.Rights.
func (c *Cluster) Install(ctx context.Context, deploy string) error {
	all, err := Manifests(deploy, c.rights...)
	if err != nil {
		return err
	}
	defer c.settling(time.Now())
	var crds, rest []*unstructured.Unstructured
	for _, o := range all {
		switch {
		case o.GetKind() == "CustomResourceDefinition":
			crds = append(crds, o)
		case installed(o):
			rest = append(rest, o)
		}
	}
	if err := c.Apply(ctx, Namespace, append(crds, rest...)...); err != nil {
		return err
	}
	return Until(ctx, 100*time.Millisecond, func(ctx context.Context) error { return c.established(ctx, crds) })
}

// established returns an error if one of the CRDs is not served yet.
func (k *Kube) established(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, want := range crds {
		r, err := k.resource("", want)
		if err != nil {
			return err
		}
		live, err := r.Get(ctx, want.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && m["type"] == "Established" && m["status"] == "True"
		}) {
			return fmt.Errorf("%s is not established", want.GetName())
		}
	}
	return nil
}

// Identity writes a kubeconfig for a service account, with a token from the API server like that of a pod, and returns its
// path.
func (c *Cluster) Identity(ctx context.Context, account string) (string, error) {
	return c.IdentityBehind(ctx, account, nil)
}

// IdentityBehind writes the kubeconfig of Identity. With a gate, its server is the gate.
func (c *Cluster) IdentityBehind(ctx context.Context, account string, gate *Gate) (string, error) {
	day := int64(24 * 60 * 60)
	t, err := c.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token for service account %s: %w", account, err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", c.Kubeconfig, err)
	}
	use, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return "", fmt.Errorf("%s has no current context", c.Kubeconfig)
	}
	use.AuthInfo = account
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{account: {Token: t.Status.Token}}
	if gate != nil {
		config.Clusters[use.Cluster] = &clientcmdapi.Cluster{Server: gate.server.URL, CertificateAuthorityData: gate.certificate()}
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig for %s: %w", account, err)
	}
	f, err := os.CreateTemp(c.Dir, account+"-*.kubeconfig") // one file per process; several processes may use the same account
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return f.Name(), errors.Join(err, f.Close())
}

// A Component is one of podfit's long-running commands.
type Component struct {
	Name    string // of the process and of its log
	Command string // podfit's command
	Account string // service account it runs as
	Args    []string
	gate    *Gate // between the component and the API server; nil for none
	env     []string
}

// Recommender returns the recommender with the arguments of deploy/.
func Recommender() Component {
	return Component{Name: "recommender", Command: "recommender", Account: "vpa-recommender"}
}

// Updater returns the updater with the arguments of deploy/.
func Updater() Component {
	return Component{Name: "updater", Command: "updater", Account: "vpa-updater"}
}

// Admission returns the admission controller with the arguments of deploy/.
func Admission() Component {
	return Component{Name: "admission-controller", Command: "admission-controller", Account: "vpa-admission-controller"}
}

// All returns the three components in one process, with the arguments of deploy/all-in-one.
func All() Component {
	return Component{Name: "podfit", Command: "run", Account: "podfit"}
}

// With returns the component with additional arguments. They override earlier ones.
func (c Component) With(args ...string) Component {
	c.Args = append(slices.Clone(c.Args), args...)
	return c
}

// WithEnv returns the component with additional environment variables, as NAME=VALUE.
func (c Component) WithEnv(env ...string) Component {
	c.env = append(slices.Clone(c.env), env...)
	return c
}

// Named returns the component with another name, for a second process of the same kind.
func (c Component) Named(name string) Component {
	c.Name = name
	return c
}

// Behind returns the component with all its requests sent through a gate.
func (c Component) Behind(g *Gate) Component {
	c.gate = g
	return c
}

// A Podfit is a running component.
type Podfit struct {
	*Process
	Component Component
	Address   string // of /metrics and /health-check
}

// Run starts a component outside the cluster.
func (c *Cluster) Run(ctx context.Context, binary string, component Component) (*Podfit, error) {
	kubeconfig, err := c.IdentityBehind(ctx, component.Account, component.gate)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := append([]string{component.Command, "--kubeconfig=" + kubeconfig, "--address=" + address}, component.Args...)
	p, err := Start(Command{
		Name: component.Name, Path: binary, Args: args, Log: filepath.Join(c.Dir, component.Name+".log"),
		Env: append([]string{"KUBERNETES_SERVICE_HOST="}, component.env...), // not in a pod, even if this process is
	})
	if err != nil {
		return nil, err
	}
	return &Podfit{Process: p, Component: component, Address: address}, nil
}

// RunAdmission starts an admission controller that writes its status every two seconds, and waits until its webhook is registered.
func (c *Cluster) RunAdmission(ctx context.Context, binary string) (*Podfit, error) {
	serving, err := Serving()
	if err != nil {
		return nil, err
	}
	admission, err := c.Run(ctx, binary, Admission().With(serving...).With("--status-lease-update-interval=2s"))
	if err != nil {
		return nil, err
	}
	ready, cancel := WithPatience(ctx, time.Minute)
	defer cancel()
	if err := Until(ready, 100*time.Millisecond, c.Registered); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, admission.Tail(40)), admission.Stop())
	}
	return admission, nil
}

// Serving returns the arguments for a webhook that listens on this machine and registers its URL.
func Serving() ([]string, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return []string{
		"--register-by-url", "--webhook-address=127.0.0.1",
		fmt.Sprintf("--port=%d", port), fmt.Sprintf("--webhook-port=%d", port),
	}, nil
}

// Registered returns nil if the webhook is registered and its lease is current, so that the API server calls it for new pods.
func (k *Kube) Registered(ctx context.Context) error {
	c, err := k.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(c.Webhooks) == 0 {
		return fmt.Errorf("webhook configuration %s is empty", c.Name)
	}
	_, err = k.CoordinationV1().Leases(Namespace).Get(ctx, "vpa-admission-controller", metav1.GetOptions{})
	return err
}

// Get returns a page of the component's HTTP server, such as /metrics.
func (p *Podfit) Get(ctx context.Context, page string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+page, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s%s: %s: %s", p.Address, page, resp.Status, strings.TrimSpace(string(b)))
	}
	return string(b), nil
}

// Healthy returns nil if the component runs and its health check succeeds.
func (p *Podfit) Healthy(ctx context.Context) error {
	if !p.Running() {
		return fmt.Errorf("%s exited: %v\n%s", p.Name, p.Err(), p.Tail(20))
	}
	_, err := p.Get(ctx, "/health-check")
	return err
}

// Ports are chosen below 32768, where the kernel's range for outgoing connections begins: a port in that range could be taken between the
// choice and the listen call.
const (
	firstPort = 20000
	lastPort  = 32768
)

// reservations keep the ports that FreePort has returned for this process.
var reservations sync.Map // net.Listener by port

// FreePort returns a free TCP port of the loopback interface. Until this process ends, no other test and no local cluster gets it, although
// nothing listens on it at first. localcluster/internal/launch describes how.
func FreePort() (int, error) {
	var err error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var reservation, l net.Listener
		if reservation, err = net.Listen("unix", fmt.Sprintf("@podfit-port-%d", port)); err != nil {
			continue
		}
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			reservation.Close()
			continue
		}
		reservations.Store(port, reservation)
		return port, l.Close()
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
