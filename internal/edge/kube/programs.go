// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Program is a container of a Deployment that runs a part of podfit, or of the upstream VPA.
type Program struct {
	Deployment string // "namespace/name"
	Namespace  string
	Image      string
	Words      []string // command and arguments
	Replicas   int32    // desired; 0: it does not run
}

// Runs reports whether the first word that is no flag and no path, or the name of the image, is one of the names, such as updater.
func (p *Program) Runs(names ...string) bool {
	for _, w := range p.Words {
		if strings.HasPrefix(w, "-") {
			break
		}
		if slices.Contains(names, base(w)) {
			return true
		}
	}
	return false
}

// IsUpstream reports whether the image is that of a part of the upstream VPA, such as vpa-updater.
func (p *Program) IsUpstream(part string) bool {
	name, _, _ := strings.Cut(base(p.Image), ":")
	name, _, _ = strings.Cut(name, "@")
	return name == "vpa-"+part || strings.HasPrefix(name, "vpa-"+part+"-")
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// installed selects the Deployments of podfit's manifests and of the charts of the upstream VPA.
const installed = "app.kubernetes.io/name in (podfit,vertical-pod-autoscaler,vpa)"

// installedNames are the Deployments of the manifests of the upstream VPA, which have no labels, and of podfit's, which replace them.
var installedNames = []string{"vpa-recommender", "vpa-updater"}

// Programs reads the containers of the Deployments that run podfit or the upstream VPA: those with the usual labels in all namespaces, and those
// with upstream's names in kube-system. It returns those that could be read, and an error if some could not.
func (c *Clients) Programs(ctx context.Context) ([]Program, error) {
	var out []Program
	seen := map[string]bool{}
	add := func(d *appsv1.Deployment) {
		name := d.Namespace + "/" + d.Name
		if seen[name] {
			return
		}
		seen[name] = true
		spec := &d.Spec.Template.Spec
		for i := range spec.Containers {
			x := &spec.Containers[i]
			out = append(out, Program{Deployment: name, Namespace: d.Namespace, Image: x.Image, Words: slices.Concat(x.Command, x.Args), Replicas: replicasOf(d.Spec.Replicas).Replicas})
		}
	}
	list, err := c.Core.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: installed, Limit: PageSize})
	if err == nil {
		for i := range list.Items {
			add(&list.Items[i])
		}
	}
	for _, name := range installedNames {
		d, getErr := c.Core.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		switch {
		case getErr == nil:
			add(d)
		case err == nil && !apierrors.IsNotFound(getErr):
			err = getErr
		}
	}
	if err != nil {
		return out, fmt.Errorf("read the Deployments of podfit: %w", err)
	}
	return out, nil
}

// InCharge returns those of the programs of a job that most certainly do it. Anyone can create a Deployment with the labels of podfit in a
// namespace of their own, but no lease in the namespace of the installation. So these count, in this order:
//
//   - programs in the given namespaces, which are those of leases in the flags, and in that of the webhook;
//   - of several, those whose pods hold the lease of the job;
//   - of other namespaces, those whose pods hold a lease of the job there. If leases cannot be read, all of them.
func (c *Clients) InCharge(ctx context.Context, programs []Program, job string, namespaces ...string) []Program {
	const webhookConfig = "vpa-webhook-config" // of podfit and the upstream VPA
	if len(programs) == 0 {
		return nil
	}
	hooks, err := c.Core.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhookConfig, metav1.GetOptions{})
	for i := 0; err == nil && i < len(hooks.Webhooks); i++ {
		if service := hooks.Webhooks[i].ClientConfig.Service; service != nil {
			namespaces = append(namespaces, service.Namespace)
		}
	}
	own := slices.DeleteFunc(slices.Clone(programs), func(p Program) bool { return !slices.Contains(namespaces, p.Namespace) })
	if len(own) == 1 {
		return own
	}
	candidates := own
	if len(own) == 0 {
		const maxPrograms = 20 // bounds the programs whose leases are read
		candidates = programs[:min(len(programs), maxPrograms)]
	}
	holders, known := c.holders(ctx, candidates, job)
	if len(holders) > 0 || known && len(own) == 0 {
		return holders
	}
	return candidates
}

// holders returns the programs whose pods hold a lease of the job in their namespace, and whether all leases could be read.
func (c *Clients) holders(ctx context.Context, programs []Program, job string) (out []Program, known bool) {
	known = true
	for i := range programs {
		for _, name := range []string{"vpa-" + job, "vpa-" + job + "-lease", "podfit"} {
			lease, err := c.Leases.CoordinationV1().Leases(programs[i].Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				known = known && apierrors.IsNotFound(err)
				continue
			}
			if holder := lease.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, base(programs[i].Deployment)+"-") {
				out = append(out, programs[i])
				break
			}
		}
	}
	return out, known
}
