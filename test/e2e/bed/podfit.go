// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Namespace is where podfit's service accounts and leases live.
const Namespace = "kube-system"

// Root finds the folder of podfit's repository above the working directory.
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
			return "", errors.New("not inside podfit's repository")
		}
		dir = up
	}
}

// Build builds podfit from the repository, the way its users do, and returns the path of the binary. What is in bin/ stays.
func Build(ctx context.Context, root string, progress io.Writer) (string, error) {
	path := filepath.Join(root, ".cache", "bin", "podfit")
	return path, goBuild(ctx, root, path, progress)
}

// goBuild builds the main package in a module's folder.
func goBuild(ctx context.Context, module, path string, progress io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, progress, progress
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", path, err)
	}
	return nil
}

// installed is which kinds of deploy/ a podfit needs that runs beside the cluster. What is left out would start it inside.
func installed(o *unstructured.Unstructured) bool {
	switch o.GroupVersionKind().Group {
	case "apiextensions.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io":
		return true
	case "":
		return o.GetKind() == "ServiceAccount" || o.GetKind() == "Namespace" || o.GetKind() == "Secret"
	}
	return false
}

// Install installs podfit's CRDs, service accounts, rights and the objects it fills from the files that users install from.
func (k *Kube) Install(ctx context.Context, deploy string) error {
	var crds, rest []*unstructured.Unstructured
	err := filepath.WalkDir(deploy, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != deploy && d.Name() != "crds" { // charts and examples are other ways to install
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := Parse(b)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, o := range objects {
			switch {
			case o.GetKind() == "CustomResourceDefinition":
				crds = append(crds, o)
			case installed(o):
				rest = append(rest, o)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", deploy, err)
	}
	if err := k.Apply(ctx, Namespace, append(crds, rest...)...); err != nil {
		return err
	}
	return Until(ctx, 100*time.Millisecond, func(ctx context.Context) error { return k.established(ctx, crds) })
}

// established says which of the CRDs is not served yet.
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

// Identity writes a kubeconfig with which a process is one of the service accounts, with a token from the API server as its
// pods would have one, and returns its path.
func (c *Cluster) Identity(ctx context.Context, account string) (string, error) {
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
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig for %s: %w", account, err)
	}
	f, err := os.CreateTemp(c.Dir, account+"-*.kubeconfig") // a file for each: several may become the same one at a time
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return f.Name(), errors.Join(err, f.Close())
}

// A Component is one of podfit's long-running commands.
type Component struct {
	Name    string // of the process, and of its log
	Command string // podfit's command
	Account string // service account it runs as
	Args    []string
}

// Recommender is the recommender, as deploy/ runs it.
func Recommender() Component {
	return Component{Name: "recommender", Command: "recommender", Account: "vpa-recommender"}
}

// Updater is the updater, as deploy/ runs it.
func Updater() Component {
	return Component{Name: "updater", Command: "updater", Account: "vpa-updater"}
}

// Admission is the admission controller, as deploy/ runs it.
func Admission() Component {
	return Component{Name: "admission-controller", Command: "admission-controller", Account: "vpa-admission-controller"}
}

// All is the three in one process, as deploy/all-in-one runs it.
func All() Component {
	return Component{Name: "podfit", Command: "run", Account: "podfit"}
}

// With returns the component with more arguments; a later argument wins over an earlier one.
func (c Component) With(args ...string) Component {
	c.Args = append(slices.Clone(c.Args), args...)
	return c
}

// Named returns the component under another name, for a second one of its kind.
func (c Component) Named(name string) Component {
	c.Name = name
	return c
}

// A Podfit is a running component.
type Podfit struct {
	*Process
	Component Component
	Address   string // of /metrics and /health-check
}

// Run starts a component beside the cluster.
func (c *Cluster) Run(ctx context.Context, binary string, component Component) (*Podfit, error) {
	kubeconfig, err := c.Identity(ctx, component.Account)
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
		Env: []string{"KUBERNETES_SERVICE_HOST="}, // it is beside the cluster, even where we run in a pod of another
	})
	if err != nil {
		return nil, err
	}
	return &Podfit{Process: p, Component: component, Address: address}, nil
}

// Serving returns the arguments of a webhook that listens on this machine and registers itself there.
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

// Registered says whether the webhook is registered and said to work, so that new pods pass through it.
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

// Get reads a page that the component serves, such as /metrics.
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

// Healthy says what is wrong with the component, or nil.
func (p *Podfit) Healthy(ctx context.Context) error {
	if !p.Running() {
		return fmt.Errorf("%s has ended: %v\n%s", p.Name, p.Err(), p.Tail(20))
	}
	_, err := p.Get(ctx, "/health-check")
	return err
}

// The kernel takes the near ends of outgoing connections from port 32768 on: a port there may be taken between the time it is
// chosen and the time it is listened on. The local cluster chooses its own ports below firstPort.
const (
	firstPort = 32000
	lastPort  = 32767
)

// nextPort is the last port that FreePort has looked at, so that it returns none twice in a row.
var nextPort atomic.Int32

// FreePort returns a TCP port of the loopback interface that nobody listens on.
func FreePort() (int, error) {
	nextPort.CompareAndSwap(0, int32(rand.IntN(lastPort-firstPort)))
	var err error
	for range lastPort - firstPort {
		port := firstPort + int(nextPort.Add(1))%(lastPort-firstPort)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
