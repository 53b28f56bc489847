// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build runs kustomize on a folder.
func build(t *testing.T, dir string) objects {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// overlay writes a kustomization that a user could write, and returns its folder. DEPLOY is podfit's folder deploy/.
func overlay(t *testing.T, text string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs(root + "/deploy")
	if err != nil {
		t.Fatal(err)
	}
	if deploy, err = filepath.Rel(dir, deploy); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "DEPLOY", deploy)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// byID returns objects by their identity. Two objects with the same one are an error.
func byID(t *testing.T, all objects) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		if out[id(o)] != nil {
			t.Errorf("%s exists twice", id(o))
		}
		out[id(o)] = o
	}
	return out
}

func TestKustomize_base_isDeploy(t *testing.T) {
	if diff := cmp.Diff(byID(t, files(t, "deploy/*.yaml")), byID(t, build(t, root+"/deploy"))); diff != "" {
		t.Errorf("kubectl apply -f deploy/ (-) and kubectl apply -k deploy/ (+)\n%s", diff)
	}
}

const allInOne = "resources: [DEPLOY]\ncomponents: [DEPLOY/all-in-one]\n"

// The component gives the objects of deploy/all-in-one and those of deploy/ that its comment names.
func TestKustomize_allInOne_isTheManifest(t *testing.T) {
	want := append(files(t, "deploy/all-in-one/*.yaml"), slices.Concat(files(t, "deploy/00-crds.yaml"), files(t, "deploy/1*.yaml"))...)
	if diff := cmp.Diff(byID(t, want), byID(t, build(t, overlay(t, allInOne)))); diff != "" {
		t.Errorf("kubectl apply -f (-) and kubectl apply -k (+)\n%s", diff)
	}
}

func TestKustomize_web_opensThePageAndItsPort(t *testing.T) {
	all := build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/all-in-one, DEPLOY/web]\n"))
	objects := byID(t, all)
	for _, o := range files(t, "deploy/web/*.yaml") {
		if diff := cmp.Diff(o, objects[id(o)]); diff != "" {
			t.Errorf("%s\n%s", id(o), diff)
		}
	}
	c := deployment(t, all, "podfit").Spec.Template.Spec.Containers[0]
	if !slices.Contains(c.Args, "--web-address=:8945") || c.Args[0] != "run" || c.Ports[len(c.Ports)-1].ContainerPort != 8945 {
		t.Errorf("arguments %v, ports %v", c.Args, c.Ports)
	}
	if policy := fmt.Sprint(objects["NetworkPolicy kube-system/podfit"].Object["spec"]); !strings.Contains(policy, "8945") || !strings.Contains(policy, "8942") {
		t.Errorf("network policy %s", policy)
	}
}

func TestKustomize_imageNamespaceAndFlags_areChanged(t *testing.T) {
	all := build(t, overlay(t, `
resources: [DEPLOY]
namespace: autoscaling
images:
- name: ghcr.io/podfit/podfit
  newName: registry.example.com/podfit
  digest: sha256:0123456789012345678901234567890123456789012345678901234567890123
patches:
- target: {kind: Deployment, name: vpa-updater}
  patch: |-
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --eviction-tolerance=0.3
`))
	for _, d := range of[appsv1.Deployment](t, all, "Deployment") {
		c := d.Spec.Template.Spec.Containers[0]
		if c.Image != "registry.example.com/podfit@sha256:0123456789012345678901234567890123456789012345678901234567890123" {
			t.Errorf("%s: image %s", d.Name, c.Image)
		}
		if d.Name == "vpa-updater" && !slices.Contains(c.Args, "--eviction-tolerance=0.3") {
			t.Errorf("%s: arguments %v", d.Name, c.Args)
		}
		// In another namespace, the lease for leader election is in that namespace, where the Role allows it.
		if d.Name != "vpa-admission-controller" && !slices.Contains(c.Args, "--leader-elect-resource-namespace=$(NAMESPACE)") {
			t.Errorf("%s: arguments %v", d.Name, c.Args)
		}
	}
	for _, o := range all {
		if o.GetNamespace() != "" && o.GetNamespace() != "autoscaling" {
			t.Errorf("%s is in another namespace", id(o))
		}
	}
	for _, b := range of[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		for _, s := range b.Subjects {
			if s.Namespace != "autoscaling" {
				t.Errorf("%s binds %s/%s", b.Name, s.Namespace, s.Name)
			}
		}
	}
}
