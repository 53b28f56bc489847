// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ways are the ways to install podfit without Helm, as arguments of kubectl apply.
func ways(t *testing.T) map[string][]string {
	deploy := root + "/deploy"
	return map[string][]string{
		"manifests": {"-f", deploy},
		"all-in-one manifests": {"-f", deploy + "/00-crds.yaml", "-f", deploy + "/10-rbac.yaml", "-f", deploy + "/15-webhook-objects.yaml",
			"-f", deploy + "/all-in-one"},
		"kustomize":            {"-k", deploy},
		"kustomize all-in-one": {"-k", overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/all-in-one, DEPLOY/web]\n")},
		"kustomize with rights": {"-k", overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/rights/placeholders, DEPLOY/rights/provisioning-requests, "+
			"DEPLOY/rights/oom-rescue, DEPLOY/rights/surges, DEPLOY/rights/hpa-targets, DEPLOY/rights/api-server-metrics, DEPLOY/rights/node-guard, DEPLOY/rights/node-groups, DEPLOY/rights/namespace-opt-in, DEPLOY/rights/kubelet-metrics]\n")},
	}
}

// generations returns the generation of each object that podfit changes or that restarts pods when it changes.
func (w *world) generations(t *testing.T) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	deployments, err := w.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		out[d.Name] = d.Generation
	}
	webhook, err := w.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out[webhook.Name] = webhook.Generation
	return out
}

func TestManifests_eachWay_installsAPodfitThatWorks(t *testing.T) {
	for name, args := range ways(t) {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			w.clean(t)
			defer w.clean(t)
			if text, err := w.kubectlApply(args...); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+autoscaler); err != nil {
				t.Fatal(err)
			}
			running := w.components(t)
			until(t, "the VPA has numbers", 2*time.Minute, w.recommended)
			until(t, "the webhook is registered", time.Minute, w.Registered)
			before := w.uids(t)
			// An upgrade is the same command again. kubectl reports some objects as configured although nothing changes, because it does
			// not know all defaults of the API server.
			generations := w.generations(t)
			if _, err := w.kubectlApply(args...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generations, w.generations(t)); diff != "" {
				t.Errorf("applied again\n%s", diff)
			}
			w.survived(t, "applied again", before)
			if err := w.Registered(t.Context()); err != nil {
				t.Error(err)
			}
			stop(t, running)
		})
	}
}

// The API server accepts all objects of the chart, whatever its values are.
func TestChart_eachConfiguration_isAcceptedByTheAPIServer(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if _, err := w.kubectlApply("--server-side", "-f", root+"/deploy/00-crds.yaml"); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string][]string{
		"defaults":            nil,
		"single":              {"mode=single", "web.enabled=true", "web.hosts[0]=podfit.example.com"},
		"profiles":            {"profiles[0].name=mine", "profiles[0].spec.base=cost"},
		"Prometheus":          {"prometheus.address=http://p:9090", "prometheus.history=true", "prometheus.bearerTokenSecret.name=token"},
		"selectors":           {"admissionController.mutatingWebhookConfiguration.namespaceSelector.matchLabels.a=b", "admissionController.mutatingWebhookConfiguration.objectSelector.matchLabels.c=d"},
		"certificates":        {"admissionController.tls.create=true", "admissionController.tls.caCert=a", "admissionController.tls.cert=b", "admissionController.tls.key=c"},
		"network":             {"networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.0.0/28", "admissionController.hostNetwork=true"},
		"scheduling and pods": {"updater.nodeSelector.a=b", "updater.tolerations[0].operator=Exists", "updater.priorityClassName=system-cluster-critical", "updater.podLabels.app=mine", "updater.podAnnotations.a=b", "updater.extraEnv[0].name=A", "imagePullSecrets[0].name=pull", "commonLabels.team=a", "updater.topologySpreadConstraints[0].maxSkew=1", "updater.topologySpreadConstraints[0].topologyKey=zone", "updater.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway"},
		"budget":              {"updater.podDisruptionBudget.minAvailable=null", "updater.podDisruptionBudget.maxUnavailable=50%", "updater.image.digest=sha256:0123456789012345678901234567890123456789012345678901234567890123"},
		"rights":              allRights,
		"policies":            {"admissionPolicies.cpuLimits.enabled=true", "admissionPolicies.cpuRequests.enabled=true"},
		"no roles":            {"rbac.create=false", "recommender.serviceAccount.create=false", "networkPolicy.enabled=false", "rights.placeholders=true"},
	} {
		var text strings.Builder
		all := render(t, set...)
		for _, o := range all {
			b, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "---\n%s", b)
		}
		file := filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := w.kubectlApply("--server-side", "--dry-run=server", "--validate=strict", "-f", file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := strings.Count(out, "(server dry run)"); n != len(all) {
			t.Errorf("%s: %d of %d objects accepted\n%s", name, n, len(all), out)
		}
	}
}

// The pods of all ways to install podfit are allowed in namespaces with the pod security level restricted.
func TestPods_namespaceIsRestricted_areAllowed(t *testing.T) {
	w := cluster(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := w.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	until(t, "pods can be created", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	create := func(spec corev1.PodSpec) error {
		spec.ServiceAccountName = "default"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "test"}, Spec: spec}
		_, err := w.CoreV1().Pods(ns.Name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create(corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Fatalf("a pod without security context: %v", err)
	}
	ours := append(files(t, "deploy/*.yaml"), files(t, "deploy/all-in-one/*.yaml")...)
	ours = append(append(ours, render(t)...), render(t, "mode=single", "prometheus.address=http://p", "prometheus.bearerTokenSecret.name=token")...)
	for _, d := range of[appsv1.Deployment](t, ours, "Deployment") {
		if err := create(d.Spec.Template.Spec); err != nil {
			text, _ := json.Marshal(d.Spec.Template.Spec)
			t.Errorf("%s: %v\n%s", d.Name, err, text)
		}
	}
}
