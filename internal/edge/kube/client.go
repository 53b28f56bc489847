// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube connects to the Kubernetes API server. It has what every job needs: clients, the lease of the webhook, amounts of
// resources, and the errors of the API server by reason. It sends no request while the process is not the leader (Fence), while changes are
// stopped (Gate), or while the API server asks for a delay (Sender).
//
// The packages below it use it: projection converts objects to core types, watcher watches and stores them, checkpoint stores usage
// histories, actuation and capacity send the requests of the updater, event sends and reads events, and inspection reads what a
// person asks for.
//
// It makes no decisions.
package kube

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
)

// Config selects the API server and the rate of requests to it.
type Config struct {
	Kubeconfig string  // path of a kubeconfig; "" means in-cluster, then the usual kubeconfig of the user
	Context    string  // context of the kubeconfig; "" is its current one
	As         string  // user to impersonate; "" means none
	QPS        float64 // requests per second of all clients; negative: unlimited; 0: default of client-go
	Burst      float64 // requests that may be sent at once; upstream's flag accepts fractions
	Component  string  // the user agent is podfit/<component>
	Version    string  // version of this binary, part of the user agent
	ReadOnly   bool    // no request is sent that changes an object
}

// Agent is the beginning of the user agent, and so the name under which the API server records which fields podfit wrote.
const Agent = "podfit"

// ErrReadOnly is the error of a request that was not sent because it changes an object.
var ErrReadOnly = errors.New("nothing is written in a dry run")

// Rest returns the configuration of a client.
func (c Config) Rest() (*rest.Config, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	if c.ReadOnly {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	}
	cfg.Impersonate.UserName = c.As
	cfg.QPS = float32(c.QPS)
	cfg.Burst = int(min(c.Burst, math.MaxInt32))
	cfg.UserAgent = Agent
	if c.Component != "" {
		cfg.UserAgent += "/" + c.Component
	}
	if c.Version != "" {
		cfg.UserAgent += " " + c.Version
	}
	return cfg, nil
}

// Namespace returns the namespace of the context of the kubeconfig, or "default".
func (c Config) Namespace() string {
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules(), &clientcmd.ConfigOverrides{CurrentContext: c.Context}).Namespace()
	if err != nil || namespace == "" {
		return "default"
	}
	return namespace
}

// InCluster reports whether this process runs in a pod, so that a Config without kubeconfig selects its cluster.
func InCluster() bool {
	_, err := rest.InClusterConfig()
	return !errors.Is(err, rest.ErrNotInCluster)
}

func (c Config) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	return rules
}

// isOfPod reports whether a Config selects the cluster that this process runs in.
func (c Config) isOfPod() bool { return c.Kubeconfig == "" && c.Context == "" && InCluster() }

func (c Config) load() (*rest.Config, error) {
	if c.isOfPod() {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the cluster that this pod runs in: %w", err)
		}
		return cfg, nil
	}
	rules := c.rules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	switch {
	case err == nil:
		return cfg, nil
	case lacksContext(rules, c.Context):
		return nil, fmt.Errorf("the kubeconfig has no context %q; kubectl config get-contexts lists those that it has", c.Context)
	case clientcmd.IsEmptyConfig(err): // its text names environment variables that are not in use
		return nil, fmt.Errorf("no cluster is configured: %s; set --kubeconfig or the environment variable %s", c.tried(rules),
			clientcmd.RecommendedConfigPathEnvVar)
	case strings.HasPrefix(c.Kubeconfig, "~"):
		return nil, fmt.Errorf("read kubeconfig %s: the shell did not replace ~ with your home folder; use --kubeconfig=$HOME%s",
			c.Kubeconfig, c.Kubeconfig[1:])
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read kubeconfig: the file %s does not exist", c.Kubeconfig)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	case c.Kubeconfig != "" && !isKubeconfig(c.Kubeconfig):
		return nil, fmt.Errorf("%s is not a kubeconfig; a kubeconfig is a YAML file of kind Config", c.Kubeconfig)
	default:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
}

// lacksContext reports whether the kubeconfig can be read and has no context of this name.
func lacksContext(rules *clientcmd.ClientConfigLoadingRules, name string) bool {
	config, err := rules.Load()
	return name != "" && err == nil && config.Contexts[name] == nil
}

// isKubeconfig reports whether a file can be decoded as a kubeconfig.
func isKubeconfig(path string) bool {
	_, err := clientcmd.LoadFromFile(path)
	return err == nil
}

// tried returns the places that were searched for a cluster.
func (c Config) tried(rules *clientcmd.ClientConfigLoadingRules) string {
	if c.Kubeconfig != "" {
		return c.Kubeconfig + " contains no cluster"
	}
	return "this process does not run in a pod, --kubeconfig is not set, and there is no kubeconfig in " + strings.Join(rules.Precedence, ", ")
}

// reviewResources are the resources whose creation only asks a question: the API server stores nothing.
var reviewResources = map[string]bool{"tokenreviews": true, "subjectaccessreviews": true}

// readOnly is a round tripper that rejects requests that change objects.
type readOnly struct{ next http.RoundTripper }

func (r readOnly) RoundTrip(q *http.Request) (*http.Response, error) {
	reads := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, q.Method)
	if reads || q.Method == http.MethodPost && reviewResources[path.Base(q.URL.Path)] {
		return r.next.RoundTrip(q)
	}
	return reject(q, ErrReadOnly)
}

// Clients are the clients of the API server. They share one connection pool and one rate limit, except leases, events, autoscalers
// and UpdateStates, which have their own limits: renewals must not wait for a burst of writes, and changes of pods must not wait for events and statuses.
type Clients struct {
	Core        kubernetes.Interface // built-in kinds, protobuf
	Leases      kubernetes.Interface // leases only
	Events      kubernetes.Interface // events only
	Metadata    metadata.Interface   // any kind, its metadata only
	Autoscalers rest.Interface       // autoscaling.k8s.io/v1, JSON
	Own         rest.Interface       // podfit.dev/v1alpha1, JSON
	States      rest.Interface       // UpdateStates only: their writes must delay no action on a pod
	raw         rest.Interface       // podfit.dev/v1alpha1, as RawObjects
	Config      *rest.Config         // the connection, for clients of other edges
	HTTP        *http.Client         // its transport, for clients of other edges
	Account     string               // context and user of the kubeconfig, for messages; "" in a pod
}

// NewClients returns clients of the API server of a Config. It sends no request.
func NewClients(c Config) (*Clients, error) {
	cfg, err := c.Rest()
	if err != nil {
		return nil, err
	}
	clients, err := ClientsFor(cfg)
	if err != nil {
		return nil, err
	}
	clients.Account = c.account()
	return clients, nil
}

// account names the context and the user that a Config selects, "" if it has no kubeconfig.
func (c Config) account() string {
	name, selected := c.selected()
	if name == "" {
		return ""
	}
	var parts []string
	if selected != nil {
		parts = append(parts, "context "+name)
		if selected.AuthInfo != "" {
			parts = append(parts, "user "+selected.AuthInfo)
		}
	}
	if c.As != "" {
		parts = append(parts, "as "+c.As)
	}
	return strings.Join(parts, ", ")
}

// selected returns the name of the context that a Config selects, "" if it has no kubeconfig, and the context itself, nil if it cannot be read.
func (c Config) selected() (string, *clientcmdapi.Context) {
	if c.isOfPod() {
		return "", nil
	}
	config, err := c.rules().Load()
	if err != nil {
		return c.Context, nil
	}
	name := cmp.Or(c.Context, config.CurrentContext)
	return name, config.Contexts[name]
}

// ClientsFor returns clients with a given configuration.
func ClientsFor(cfg *rest.Config) (*Clients, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next} })
	if cfg.RateLimiter == nil && cfg.QPS >= 0 {
		cfg.QPS = cmp.Or(cfg.QPS, rest.DefaultQPS)
		if cfg.Burst <= 0 {
			cfg.Burst = max(rest.DefaultBurst, int(cfg.QPS))
		}
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	cs := &Clients{Config: cfg, HTTP: httpClient}

	builtin := rest.CopyConfig(cfg)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if cs.Core, err = kubernetes.NewForConfigAndClient(builtin, httpClient); err != nil {
		return nil, fmt.Errorf("make client of built-in kinds: %w", err)
	}
	leases := rest.CopyConfig(builtin)
	leases.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(5, 10)
	if cs.Leases, err = kubernetes.NewForConfigAndClient(leases, httpClient); err != nil {
		return nil, fmt.Errorf("make client of leases: %w", err)
	}
	if cs.Events, err = kubernetes.NewForConfigAndClient(withOwnLimit(builtin), httpClient); err != nil {
		return nil, fmt.Errorf("make client of events: %w", err)
	}
	if cs.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), httpClient); err != nil {
		return nil, fmt.Errorf("make client of metadata: %w", err)
	}
	own := v1alpha1.GroupVersion()
	for _, kind := range []struct {
		to     *rest.Interface
		cfg    *rest.Config
		gv     schema.GroupVersion
		scheme func(schema.GroupVersion) *runtime.Scheme
		name   string
	}{
		{&cs.Autoscalers, withOwnLimit(cfg), v1.GroupVersion(), autoscalerScheme, "autoscalers"},
		{&cs.Own, cfg, own, ownScheme, "podfit's kinds"},
		{&cs.States, withOwnLimit(cfg), own, ownScheme, "update states"},
		{&cs.raw, cfg, own, rawScheme, "raw objects"},
	} {
		c := rest.CopyConfig(kind.cfg)
		c.GroupVersion = &kind.gv
		c.APIPath = "/apis"
		c.ContentType = runtime.ContentTypeJSON
		c.AcceptContentTypes = runtime.ContentTypeJSON
		c.NegotiatedSerializer = serializer.NewCodecFactory(kind.scheme(kind.gv)).WithoutConversion()
		if *kind.to, err = rest.RESTClientForConfigAndClient(c, httpClient); err != nil {
			return nil, fmt.Errorf("make client of %s: %w", kind.name, err)
		}
	}
	return cs, nil
}

// ownScheme has the kinds of podfit.dev/v1alpha1.
func ownScheme(schema.GroupVersion) *runtime.Scheme {
	s := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(s) // always nil
	return s
}

// withOwnLimit returns a copy of a configuration whose rate limit is as high as that of the original, but not shared with it.
func withOwnLimit(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	if out.QPS > 0 {
		out.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(out.QPS, out.Burst)
	}
	return out
}
