// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
)

// groupFlags separates the flags of this command from those of the updater in the help.
func (c *Config) groupFlags(cmd *cobra.Command) {
	var own, others, sizes []string
	updater := pflag.NewFlagSet("updater", pflag.ContinueOnError)
	c.jobs.Updater.Flags(updater)
	recommender := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
	c.jobs.Recommender.Flags(recommender)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case updater.Lookup(f.Name) != nil:
			others = append(others, f.Name)
		case recommender.Lookup(f.Name) != nil:
			sizes = append(sizes, f.Name)
		default:
			own = append(own, f.Name)
		}
	})
	process.GroupFlags(cmd, "Flags", own...)
	process.GroupFlags(cmd, "Flags of the updater that determine what happens next", others...)
	process.GroupFlags(cmd, "Flags of the recommender that determine the size", sizes...)
}

// completed are the kinds that shells offer, with the resources whose names they offer.
var completed = []struct {
	kind       string
	resource   schema.GroupVersionResource
	namespaced bool
}{
	{"deploy", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true},
	{"sts", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, true},
	{"ds", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, true},
	{"cronjob", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, true},
	{"job", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, true},
	{"pod", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, true},
	{"vpa", schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}, true},
	{"node", schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, false},
}

const (
	completionTimeout = 2 * time.Second // a shell waits for it
	maxCompletions    = 500
)

// complete returns the kinds, or after a kind the names of its objects.
func (c *Config) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, name, named := strings.Cut(typed, "/")
	var out []string
	for _, of := range completed {
		switch {
		case !named && strings.HasPrefix(of.kind, kind):
			out = append(out, of.kind+"/")
		case named && of.kind == kind:
			return c.names(cmd.Context(), of.resource, of.namespaced, kind, name), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// names returns the objects of a kind whose names have a prefix; none if they cannot be listed.
func (c *Config) names(ctx context.Context, of schema.GroupVersionResource, namespaced bool, kind, prefix string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	clients, err := kube.NewClients(c.Kube)
	if err != nil {
		return nil
	}
	namespace := ""
	if namespaced {
		if namespace = c.Namespace; namespace == "" {
			namespace = c.Kube.Namespace()
		}
	}
	list, err := clients.Metadata.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil {
		return nil
	}
	var out []string
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, prefix) {
			out = append(out, kind+"/"+name)
		}
	}
	return out
}
