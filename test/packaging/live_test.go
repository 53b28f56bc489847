// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

var (
	crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	vpaResource = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}
)

// until waits until f returns nil.
func until(t *testing.T, what string, timeout time.Duration, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := bed.WithPatience(t.Context(), timeout)
	defer cancel()
	if err := bed.Until(ctx, 200*time.Millisecond, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// workload is a Deployment of a user with a VPA. It uses more than it requests.
const workload = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {sim.podfit.dev/app.cpu: 200m, sim.podfit.dev/app.memory: 300Mi}
    spec:
      containers:
      - {name: app, image: example.com/web, resources: {requests: {cpu: 100m, memory: 100Mi}}}
`

const autoscaler = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: "Off"}
`

// uids returns the UID of each object that must survive: the Deployments of the release, the CRDs of the API, the VPAs, and the user's pods.
func (w *world) uids(t *testing.T) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	deployments, err := w.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=vpa"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		out["Deployment "+d.Name] = d.UID
	}
	pods, err := w.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		out["Pod "+p.Name] = p.UID
	}
	for _, r := range []schema.GroupVersionResource{crdResource, vpaResource} {
		list, err := w.Dynamic.Resource(r).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if r == vpaResource || strings.HasSuffix(o.GetName(), ".autoscaling.k8s.io") {
				out[o.GetKind()+" "+o.GetName()] = o.GetUID()
			}
		}
	}
	return out
}

// survived compares UIDs with those of an earlier time.
func (w *world) survived(t *testing.T, step string, before map[string]types.UID) {
	t.Helper()
	now := w.uids(t)
	for what, uid := range before {
		if now[what] != uid {
			t.Errorf("%s: %s was %q and is %q", step, what, uid, now[what])
		}
	}
}

// webhooks returns the names of the configurations that contain the webhook of a VPA.
func (w *world) webhooks(t *testing.T) (out []string) {
	t.Helper()
	list, err := w.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		out = append(out, c.Name)
	}
	return out
}

// components starts the containers of the Deployments of the release as processes, with their arguments and service accounts.
func (w *world) components(t *testing.T) (out []*bed.Podfit) {
	t.Helper()
	deployments, err := w.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := bed.Serving()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		if d.Labels["app.kubernetes.io/name"] != "vertical-pod-autoscaler" && d.Labels["app.kubernetes.io/name"] != "podfit" {
			continue
		}
		pod := d.Spec.Template.Spec
		command := slices.Concat(pod.Containers[0].Command, pod.Containers[0].Args)
		if command[0] == "/podfit" {
			command = command[1:]
		}
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "$(NAMESPACE)", namespace)
		}
		c := bed.Component{Name: d.Name, Command: command[0], Account: pod.ServiceAccountName, Args: command[1:]}
		switch c.Command {
		case "recommender":
			c = c.With("--recommender-interval=2s")
		case "updater":
			c = c.With("--updater-interval=2s")
		case "admission-controller":
			c = c.With(append(serving, "--status-lease-update-interval=2s")...)
		case "run":
			c = c.With(append(serving, "--recommender-interval=2s", "--updater-interval=2s", "--status-lease-update-interval=2s")...)
		}
		p, err := w.Run(t.Context(), w.binary, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s %s\n%s", p.Name, strings.Join(command, " "), p.Tail(30))
			}
			if p.Running() {
				p.Kill()
			}
		})
		out = append(out, p)
	}
	for _, p := range out {
		until(t, p.Name+" is healthy", time.Minute, p.Healthy)
	}
	return out
}

// stop stops components, and checks that the API server has refused none of their requests for lack of rights, but for one that finds out which
// they have.
func stop(t *testing.T, components []*bed.Podfit) {
	t.Helper()
	for _, p := range components {
		metrics, err := p.Get(t.Context(), "/metrics")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(metrics) {
			asks := strings.Contains(line, `method="GET"`) && strings.HasSuffix(line, " 1\n") // whether capacity can be requested
			if strings.HasPrefix(line, "rest_client_requests_total") && strings.Contains(line, `code="403"`) && !asks {
				t.Errorf("%s has used a right that it was not granted: %s\n%s", p.Name, line, p.Tail(30))
			}
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// recommended returns nil if the VPA of the workload has a recommendation, as kubectl get vpa shows it.
func (w *world) recommended(ctx context.Context) error {
	o, err := w.Dynamic.Resource(vpaResource).Namespace("shop").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, found, _ := unstructured.NestedSlice(o.Object, "status", "recommendation", "containerRecommendations"); !found {
		return fmt.Errorf("no recommendation: %v", o.Object["status"])
	}
	return nil
}

// awaitStorage waits until the API server can list the objects of all CRDs. It does not complete the deletion of a CRD whose storage was not
// ready when the deletion began: it reports "storage is (re)initializing" for minutes.
func (w *world) awaitStorage(t *testing.T) {
	t.Helper()
	until(t, "objects of all CRDs can be listed", time.Minute, func(ctx context.Context) error {
		list, err := w.Dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			spec, _, _ := unstructured.NestedMap(list.Items[i].Object, "spec")
			group, _, _ := unstructured.NestedString(spec, "group")
			plural, _, _ := unstructured.NestedString(spec, "names", "plural")
			versions, _, _ := unstructured.NestedSlice(spec, "versions")
			for _, v := range versions {
				if version, _ := v.(map[string]any); version["served"] == true {
					r := schema.GroupVersionResource{Group: group, Version: version["name"].(string), Resource: plural}
					if _, err := w.Dynamic.Resource(r).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
						return fmt.Errorf("list %s: %w", r.Resource, err)
					}
				}
			}
		}
		return nil
	})
}

// clean removes a release and everything that the tests create, so that they can run in any order.
func (w *world) clean(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_ = w.uninstall(t) // of a failed test
	w.awaitStorage(t)
	for _, all := range []objects{files(t, "deploy/*.yaml"), files(t, "deploy/all-in-one/*.yaml"), files(t, "deploy/web/*.yaml"), files(t, "deploy/rights/*/*.yaml"), parse(t, workload)} {
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				continue
			}
			if err := w.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("remove %s: %v", id(o), err)
			}
		}
	}
	until(t, "the pods are gone", time.Minute, func(ctx context.Context) error {
		pods, err := w.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods exist", len(pods.Items))
		}
		return err
	})
	until(t, "the CRDs are gone", 3*time.Minute, func(ctx context.Context) error {
		list, err := w.Dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%s: %v", list.Items[0].GetName(), list.Items[0].Object["status"])
		}
		return err
	})
}

func TestChart_upgradeFromUpstreamAndBack_keepsEverything(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if _, err := w.install(t, upstream(t), nil); err != nil {
		t.Fatal(err)
	}
	// The job of upstream's chart creates this Secret.
	certificates := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "vpa-tls-certs"}, Data: map[string][]byte{"ca": []byte("a"), "cert": []byte("b"), "key": []byte("c")}}
	if _, err := w.CoreV1().Secrets(namespace).Create(t.Context(), certificates, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+autoscaler); err != nil {
		t.Fatal(err)
	}
	until(t, "the pods run", time.Minute, func(ctx context.Context) error {
		d, err := w.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != 2 {
			err = fmt.Errorf("%d ready", d.Status.ReadyReplicas)
		}
		return err
	})
	before := w.uids(t)
	if len(before) != 3+2+1+2 { // Deployments, pods, VPA, CRDs
		t.Fatalf("objects at the start: %v", before)
	}

	if _, err := w.upgrade(t, load(t, folder), true, nil); err == nil || !strings.Contains(err.Error(), "--set recommender.image.repository=ghcr.io/podfit/podfit") {
		t.Errorf("an upgrade with upstream's images: %v", err)
	}
	r, err := w.upgrade(t, load(t, folder), true, values(t, fixed...))
	if err != nil {
		t.Fatal(err)
	}
	w.survived(t, "upgrade to podfit", before)
	if got := w.webhooks(t); !slices.Equal(got, []string{"vpa-webhook-config"}) {
		t.Errorf("webhook configurations after the upgrade: %v", got)
	}
	if !strings.Contains(r.Info.Notes, "podfit crds | kubectl apply --server-side --force-conflicts -f -") {
		t.Errorf("notes\n%s", r.Info.Notes)
	}
	running := w.components(t)
	until(t, "the VPA has numbers", 2*time.Minute, w.recommended)
	until(t, "the webhook is registered", time.Minute, w.Registered)
	secret, err := w.CoreV1().Secrets(namespace).Get(t.Context(), "vpa-tls-certs", metav1.GetOptions{})
	if err != nil || string(secret.Data["ca"]) != "a" || len(secret.Data["caCert.pem"]) == 0 {
		t.Errorf("the Secret has keys of upstream %t, of podfit %t, %v", string(secret.Data["ca"]) == "a", len(secret.Data["caCert.pem"]) > 0, err)
	}
	// The same again: neither webhook nor certificates change.
	config, err := w.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.upgrade(t, load(t, folder), true, values(t, "updater.logLevel=5")); err != nil {
		t.Fatal(err)
	}
	again, err := w.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
	if err != nil || again.Generation != config.Generation {
		t.Errorf("an upgrade changes the webhook configuration: %v", err)
	}
	if now, err := w.CoreV1().Secrets(namespace).Get(t.Context(), "vpa-tls-certs", metav1.GetOptions{}); err != nil || now.ResourceVersion != secret.ResourceVersion {
		t.Errorf("an upgrade changes the Secret: %v", err)
	}
	stop(t, running)
	if _, err := w.upgrade(t, load(t, folder), true, values(t, "crds.enabled=false")); err != nil {
		t.Errorf("CRDs that are kept: %v", err)
	}
	w.survived(t, "crds.enabled=false", before)

	if _, err := w.upgrade(t, upstream(t), false, nil); err != nil {
		t.Fatal(err)
	}
	w.survived(t, "back to upstream", before)
	if got := w.webhooks(t); !slices.Equal(got, []string{"vpa-vertical-pod-autoscaler-webhook-config"}) {
		t.Errorf("webhook configurations of upstream: %v", got)
	}
	if err := w.recommended(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := w.upgrade(t, load(t, folder), true, values(t, fixed...)); err != nil {
		t.Fatal(err)
	}
	w.survived(t, "podfit again", before)
	if err := w.rollback(t, 1); err != nil {
		t.Fatal(err)
	}
	w.survived(t, "rollback to upstream", before)
	if _, err := w.upgrade(t, load(t, folder), true, values(t, fixed...)); err != nil {
		t.Fatal(err)
	}
	if err := w.uninstall(t); err != nil {
		t.Fatal(err)
	}
	for what := range before {
		if strings.HasPrefix(what, "Deployment") {
			delete(before, what)
		}
	}
	w.survived(t, "uninstall", before)
	if got := w.webhooks(t); len(got) > 0 {
		t.Errorf("webhook configurations after helm uninstall: %v", got)
	}
}

// A release of upstream whose CRDs Helm would delete with it.
func TestChart_upgradeFromUpstreamThatDeletesCRDs_keepsThem(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if _, err := w.install(t, upstream(t), values(t, "crds.keep=false")); err != nil {
		t.Fatal(err)
	}
	if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+autoscaler); err != nil {
		t.Fatal(err)
	}
	before := w.uids(t)
	for set, want := range map[string]string{"crds.keep=false": "crds.keep=true", "crds.keep=true,crds.enabled=false": "kubectl annotate crd"} {
		if _, err := w.upgrade(t, load(t, folder), true, values(t, append(slices.Clone(fixed), set)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
	if _, err := w.upgrade(t, load(t, folder), true, values(t, append(slices.Clone(fixed), "crds.keep=true")...)); err != nil {
		t.Fatal(err)
	}
	if err := w.uninstall(t); err != nil {
		t.Fatal(err)
	}
	for what := range before {
		if strings.HasPrefix(what, "Deployment") {
			delete(before, what)
		}
	}
	w.survived(t, "uninstall", before)
}

func TestChart_newInstallation_recommendsUpgradesAndIsRemoved(t *testing.T) {
	for _, set := range [][]string{nil, {"mode=single", "web.enabled=true"}} {
		t.Run(strings.Join(append(set, "release"), ","), func(t *testing.T) {
			w := cluster(t)
			w.clean(t)
			defer w.clean(t)
			profile := []string{"profiles[0].name=mine", "profiles[0].spec.base=cost"}
			if _, err := w.install(t, load(t, folder), values(t, append(profile, set...)...)); err != nil {
				t.Fatal(err)
			}
			if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+autoscaler); err != nil {
				t.Fatal(err)
			}
			before := w.uids(t)
			running := w.components(t)
			until(t, "the VPA has numbers", 2*time.Minute, w.recommended)
			until(t, "the webhook is registered", time.Minute, w.Registered)
			stop(t, running)
			if _, err := w.upgrade(t, load(t, folder), true, values(t, "admissionController.podAnnotations.a=b")); err != nil {
				t.Fatal(err)
			}
			w.survived(t, "upgrade", before)
			if err := w.rollback(t, 1); err != nil {
				t.Fatal(err)
			}
			w.survived(t, "rollback", before)
			if err := w.uninstall(t); err != nil {
				t.Fatal(err)
			}
			for what := range before {
				if strings.HasPrefix(what, "Deployment") {
					delete(before, what)
				}
			}
			w.survived(t, "uninstall", before)
			if err := w.recommended(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Objects that exist and belong to something else than the release do not prevent an installation.
func TestChart_installedOverManifests_isRefusedOrTakesOver(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if _, err := w.kubectlApply("--server-side", "-f", root+"/deploy/00-crds.yaml", "-f", root+"/deploy/15-webhook-objects.yaml", "-f", root+"/deploy/rights/placeholders/placeholders.yaml"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.install(t, load(t, folder), values(t, "rights.placeholders=true")); err != nil {
		t.Fatal(err)
	}
	if err := w.uninstall(t); err != nil {
		t.Fatal(err)
	}
	if got := w.webhooks(t); !slices.Equal(got, []string{"vpa-webhook-config"}) {
		t.Errorf("helm uninstall has removed an object that was not of the release: %v", got)
	}
	other := `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: other-webhook-config}
webhooks:
- name: vpa.k8s.io
  clientConfig: {url: "https://127.0.0.1:1/"}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`
	if err := w.ApplyYAML(t.Context(), "", other); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.WithoutCancel(t.Context()), "other-webhook-config", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	if _, err := w.install(t, load(t, folder), nil); err == nil || !strings.Contains(err.Error(), "kubectl delete mutatingwebhookconfiguration other-webhook-config") {
		t.Errorf("a second registration of the webhook: %v", err)
	}
}
