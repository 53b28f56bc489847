// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/prom"
)

// A Recommender is the recommender whose numbers are explained.
type Recommender interface {
	Flags(*pflag.FlagSet)
	Validate() error
	Catalog() *sizing.Catalog
	Store() *usage.Store
	MaxAllowed() cluster.Resources
	// IsNamed reports whether the recommender has a name of its own, and the autoscaler names it.
	IsNamed(*cluster.Autoscaler) bool
	// Assumed returns the flags with the largest effect on the default profile that are not on the command line.
	Assumed(fs *pflag.FlagSet) []string
}

// Running are the jobs that are explained.
type Running struct {
	Updater     Updater
	Recommender Recommender
}

// adopt sets the flags of the running updater and recommender, as their Deployments have them, unless they are on the command line. It returns
// notes about these flags, and what could not be read.
func (c *Config) adopt(ctx context.Context, clients *kube.Clients) explanation.Gaps {
	var out explanation.Gaps
	programs, err := clients.Programs(ctx)
	for _, job := range []struct {
		name  string
		flags func(*pflag.FlagSet)
	}{{"updater", c.jobs.Updater.Flags}, {"recommender", c.jobs.Recommender.Flags}} {
		of := pflag.NewFlagSet(job.name, pflag.ContinueOnError)
		job.flags(of)
		found := slices.DeleteFunc(slices.Clone(programs), func(p kube.Program) bool {
			return p.Replicas == 0 || !p.Runs(job.name, "run") && !p.IsUpstream(job.name)
		})
		namespace, _, _ := c.jobs.Updater.StatusLease()
		found = clients.InCharge(ctx, found, job.name, namespace, metav1.NamespaceSystem)
		switch {
		case len(found) == 0 && err != nil:
			miss(&out, "flags of the "+job.name, err,
				"The flags of the running "+job.name+" are not known, because its Deployment cannot be read (%s).")
		case len(found) == 0:
			out.Miss("flags of the "+job.name, fmt.Sprintf("No Deployment of podfit's %s was found, so its flags are not known, and neither is whether it runs.", job.name))
		case len(found) > 1:
			names := cluster.Each(found, func(p *kube.Program) string { return p.Deployment })
			out.Miss("flags of the "+job.name, fmt.Sprintf("%d Deployments run the %s (%s), so it is not known which flags count.", len(found), job.name, strings.Join(names, ", ")))
		default:
			c.assumed[job.name] = false
			c.adoptOf(&out, job.name, &found[0], of)
		}
	}
	return out
}

// adoptOf sets the flags of one program and adds a note about them.
func (c *Config) adoptOf(gaps *explanation.Gaps, job string, p *kube.Program, of *pflag.FlagSet) {
	if p.IsUpstream(job) {
		gaps.Remarks = append(gaps.Remarks, fmt.Sprintf("Deployment %s runs the %s of the upstream VPA (%s), and not podfit's. This is what podfit's would do with the same flags: %s.", p.Deployment, job, p.Image, c.set(p.Words, of)))
		return
	}
	taken := c.set(p.Words, of)
	like := ""
	if f := c.given.Lookup(compatibility.FlagName); f != nil && of.Lookup(compatibility.FlagName) != nil {
		like = ", with the behaviour of --" + compatibility.FlagName + "=" + f.Value.String()
	}
	gaps.Miss("", fmt.Sprintf("The flags of the %s are those of Deployment %s%s: %s.", job, p.Deployment, like, taken))
}

// set sets the flags in the words of a command line that of has and that this command line does not have. It returns them as text.
func (c *Config) set(words []string, of *pflag.FlagSet) string {
	var taken []string
	for i := 0; i < len(words); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		f := of.Lookup(name)
		if !strings.HasPrefix(words[i], "-") || f == nil {
			continue
		}
		switch {
		case hasValue:
		case f.NoOptDefVal != "":
			value = f.NoOptDefVal
		case i+1 < len(words):
			i++
			value = words[i]
		}
		own := c.given.Lookup(name)
		if strings.Contains(value, "$(") || own == nil || own.Changed || c.given.Set(name, value) != nil {
			continue // a variable of the container, a flag of this command line, or a value that this version does not know
		}
		taken = append(taken, "--"+name+"="+value)
	}
	if len(taken) == 0 {
		return "all that matter here have their defaults"
	}
	return strings.Join(taken, " ")
}

// readLease finds out whether the updater changes pods at all: only while the admission controller renews its status lease.
func (c *Config) readLease(ctx context.Context, now time.Time, in *explanation.Input, clients *kube.Clients) {
	namespace, name, timeout := c.jobs.Updater.StatusLease()
	if name == "" || c.onlyNamespace && namespace != in.Subject.Workload.Namespace {
		return
	}
	fresh, err := kube.NewLease(clients, namespace, name).IsFresh(ctx, timeout, now)
	miss(&in.Gaps, "the status lease", err, "The status lease of the admission controller was not read (%s): without a valid one the updater changes no pods.")
	if err == nil && !fresh {
		in.Paused = fmt.Sprintf("The updater changes no pods, because the status lease %s/%s of the admission controller is missing or older than %v.", namespace, name, timeout)
	}
}

// noteSizing says which flags of the recommender were assumed, if there is a size to explain.
func (c *Config) noteSizing(in *explanation.Input) {
	if !c.assumed["recommender"] || in.Sizing == nil {
		return
	}
	if assumed := c.jobs.Recommender.Assumed(c.given); len(assumed) > 0 {
		in.Miss("flags of the recommender", "Assumed for the recommender: "+strings.Join(assumed, " ")+". If it runs with other flags, add them to this command.")
	}
}

// readHeaps adds what the Prometheus of the command line or the environment has recorded about the heaps of JVMs.
func (c *Config) readHeaps(ctx context.Context, now time.Time, in *explanation.Input) {
	jvms := in.JVMs()
	if c.prometheus == nil || len(jvms) == 0 {
		return
	}
	from, err := c.prometheus.Given()
	if from == nil && err == nil {
		return
	}
	for _, name := range jvms {
		if c.Container != "" && c.Container != name {
			continue
		}
		var usage runtimeguard.HeapUsage
		if err == nil {
			usage, err = c.readHeap(ctx, now, from, in, name)
		}
		if err != nil {
			in.Miss("heaps", "The heaps of JVMs were not read ("+oneLine(err)+").")
			return
		}
		cluster.Put(&in.HeapUsage, name, usage)
	}
}

func (c *Config) readHeap(ctx context.Context, now time.Time, from *process.PrometheusEndpoint, in *explanation.Input, container string) (runtimeguard.HeapUsage, error) {
	const heapTimeout = 30 * time.Second // for the query for one container
	client, err := prom.NewWithTransport(prom.Config{
		Address: from.Address, Timeout: heapTimeout, Length: time.Hour, Resolution: time.Hour, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container",
	}, from.Transport)
	if err != nil {
		return runtimeguard.HeapUsage{}, err
	}
	q := prom.HeapQuery{
		Namespace: in.Pods[0].Namespace, Pods: cluster.Each(in.Pods, func(p **cluster.Pod) string { return (*p).Name }), Container: container,
		Only: len(in.JVMs()) == 1, Matchers: c.prometheus.Matchers(),
	}
	return client.HeapUsage(ctx, q, now)
}
