// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/test/e2e/bed"
)

// Kinds of objects that podfit writes without --dry-run.
var writable = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"},
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
	{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalercheckpoints"},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "usagehistories"},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "updatestates"},
}

// versions returns the resource versions of the objects that podfit could write, and its events.
func (p *place) versions(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range writable {
		l, err := p.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range l.Items {
			if n := o.GetNamespace(); n != "" && n != p.ns && n != bed.Namespace {
				continue // of an earlier test whose namespace is being deleted
			}
			if r.Resource == "leases" && !strings.Contains(o.GetName(), "vpa") && !strings.Contains(o.GetName(), "podfit") {
				continue // of nodes and the control plane
			}
			out[r.Resource+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	l, err := p.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{FieldSelector: "source=vpa-updater"})
	if err != nil {
		return nil, err
	}
	for _, e := range l.Items {
		out["event "+e.Namespace+"/"+e.Name] = e.ResourceVersion
	}
	return out, nil
}

// waitForLog waits until a component's log has a line with all of the texts.
func (p *place) waitForLog(c *bed.Podfit, texts ...string) {
	p.Helper()
	p.eventually(c.Name+" logs "+strings.Join(texts, ", "), measured, func(context.Context) error {
		for line := range strings.Lines(c.Tail(1000)) {
			if containsAll(line, texts) {
				return nil
			}
		}
		if !c.Running() {
			return errors.New("the process has exited")
		}
		return fmt.Errorf("no such line in the log:\n%s", c.Tail(20))
	})
}

func containsAll(line string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// TestPodfit_outsideTheCluster_changesNothingUntilAsked runs podfit outside the cluster as an administrator. With
// --dry-run it changes nothing.
func TestPodfit_outsideTheCluster_changesNothingUntilAsked(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1") // this process may run in a pod of another cluster
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	p := newPlace(t, "own-machine")
	registered, err := p.webhook(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.components() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if err := p.Install(context.Background(), filepath.Join(p.root, "deploy")); err != nil {
			t.Error(err)
		}
		if err := p.startAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	port, err := bed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	run := bed.Component{Command: "run", Account: "vpa-recommender"} // not used: the kubeconfig is that of an administrator
	run = run.With("--kubeconfig="+p.Kubeconfig, "--recommender-interval=5s", "--updater-interval=5s", "--status-lease-update-interval=2s",
		"--register-by-url", "--webhook-address=127.0.0.1", fmt.Sprintf("--webhook-port=%d", port), fmt.Sprintf("--port=%d", port))
	w := steady("steady")
	p.apply(w.manifest(), fmt.Sprintf(strings.Replace(balancedAutoscaler, `"Off"`, "Recreate", 1), "balanced"))
	p.register(fmt.Sprintf("https://127.0.0.1:%d", port), registered.Webhooks)
	p.checkDryRun(run.Named("dry-run").With("--dry-run", "--leader-elect"))
	p.checkUnregistration(run.Named("by-url"))
	p.checkUnregisteredWebhook(run.Named("not-registered").With("--register-webhook=false", "--webhook-address=10.9.9.9"))
	p.checkMissingRights()
}

// checkDryRun runs podfit with --dry-run while an existing webhook configuration still refers to it.
func (p *place) checkDryRun(dry bed.Component) {
	p.Helper()
	before, err := p.versions(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	pods := p.start("steady", 2)
	all, err := p.healthy(p.Context(), dry)
	if err != nil {
		p.Fatal(err)
	}
	p.waitForLog(all, "Would recommend", "vpa=own-machine/steady")
	p.waitForLog(all, "Would change a pod", "action=evict", "pod=own-machine/steady-")
	if err := p.same("steady", pods)(p.Context()); err != nil {
		p.Error(err)
	}
	more := steady("steady")
	more.Replicas = 3
	p.apply(more.manifest())
	p.waitForLog(all, "Would size a new pod", "pod=own-machine/steady-")
	p.eventually("the new pod keeps its own requests", time.Minute, p.sized("steady", 3, "app cpu=100m memory=52428800"))
	began := time.Now()
	if err := all.Stop(); err != nil {
		p.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		p.Errorf("the process took %v to exit", took)
	}
	after, err := p.versions(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	p.unchanged("a dry run", before, after)
}

// unchanged checks that no object was changed or removed.
func (p *place) unchanged(by string, before, after map[string]string) {
	p.Helper()
	for name := range before {
		if after[name] == "" {
			p.Errorf("%s removed %s", by, name)
		}
	}
	for name, version := range after {
		if before[name] != version {
			p.Errorf("%s wrote %s", by, name)
		}
	}
}

// register creates the webhook configuration again, with another URL for podfit's webhook. An admission controller deletes its
// configuration when it exits.
func (p *place) register(url string, webhooks []admissionregistrationv1.MutatingWebhook) {
	p.Helper()
	webhooks[0].ClientConfig.URL = &url
	configurations := p.AdmissionregistrationV1().MutatingWebhookConfigurations()
	p.eventually("the webhook is registered with "+url, 10*time.Second, func(ctx context.Context) error {
		c, err := p.webhook(ctx)
		if apierrors.IsNotFound(err) {
			c = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "vpa-webhook-config"}, Webhooks: webhooks}
			_, err = configurations.Create(ctx, c, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		c.Webhooks = webhooks
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
}

func (p *place) webhook(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return p.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "vpa-webhook-config", metav1.GetOptions{})
}

// checkUnregistration checks that podfit deletes a webhook configuration with a URL when it exits.
func (p *place) checkUnregistration(run bed.Component) {
	p.Helper()
	if err := p.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(p.Context(), "vpa-webhook-config", metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	all, err := p.healthy(p.Context(), run)
	if err != nil {
		p.Fatal(err)
	}
	p.eventually("new pods get their size", measured+resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "steady", 3)
		for _, pod := range pods {
			if pod.Annotations["vpaObservedContainers"] == "" {
				return fmt.Errorf("pod %s has no annotation of the webhook", pod.Name)
			}
		}
		return err
	})
	began := time.Now()
	if err := all.Stop(); err != nil {
		p.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		p.Errorf("the process took %v to exit", took)
	}
	if c, err := p.webhook(p.Context()); !apierrors.IsNotFound(err) {
		p.Errorf("the webhook configuration still exists: %v, %v\n%s", c, err, all.Tail(20))
	}
}

// checkUnregisteredWebhook checks that a second podfit without registration does not change the installed webhook.
func (p *place) checkUnregisteredWebhook(run bed.Component) {
	p.Helper()
	before, err := p.versions(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	all, err := p.healthy(p.Context(), run)
	if err != nil {
		p.Fatal(err)
	}
	p.waitForLog(all, "Loaded the stored usage history")
	p.always("it leaves certificates and lease as they are", 8*time.Second, func(ctx context.Context) error {
		after, err := p.versions(ctx)
		for _, name := range []string{"secrets kube-system/vpa-tls-certs", "leases kube-system/vpa-admission-controller"} {
			if err == nil && (before[name] == "" || after[name] != before[name]) {
				return fmt.Errorf("resource version of %s changed from %s to %s", name, before[name], after[name])
			}
		}
		return nil
	})
	if err := all.Stop(); err != nil {
		p.Error(err)
	}
}

const noNodes = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:vpa-actor}
rules:
- {apiGroups: [""], resources: [pods, limitranges], verbs: [get, list, watch]}
- {apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: [get, list, watch]}
`

// checkMissingRights runs a recommender without the rights to read nodes and events.
func (p *place) checkMissingRights() {
	p.Helper()
	p.ExpectRefused("vpa-recommender: list nodes", "vpa-recommender: watch nodes",
		"vpa-recommender: list nodepools.karpenter.sh", "vpa-recommender: list machinedeployments.cluster.x-k8s.io")
	p.apply(noNodes)
	r, err := p.healthy(p.Context(), recommender().Named("without-nodes"))
	if err != nil {
		p.Fatal(err)
	}
	p.waitForLog(r, "Cannot read an optional resource; podfit runs without it", "resource=nodes", "impact=")
	w := steady("seen")
	p.apply(w.manifest(), w.autoscaler("Off"))
	p.eventually("the VPA has a recommendation", measured, p.recommended("seen", steadyTarget))
	if err := r.Stop(); err != nil {
		p.Error(err)
	}
}
