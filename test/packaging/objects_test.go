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

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"podfit.dev/podfit/test/e2e/bed"
)

const root = "../.."

// objects are decoded manifests.
type objects []*unstructured.Unstructured

// parse decodes a YAML stream.
func parse(t *testing.T, text string) objects {
	t.Helper()
	out, err := bed.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// files decodes all files that match a pattern below the repository, as kubectl apply -f does with a folder.
func files(t *testing.T, pattern string) (out objects) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parse(t, string(text))...)
	}
	return out
}

// id identifies an object in the output of tests.
func id(o *unstructured.Unstructured) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}

// ids returns the sorted identities of objects.
func (all objects) ids() (out []string) {
	for _, o := range all {
		out = append(out, id(o))
	}
	slices.Sort(out)
	return out
}

// of returns the objects of a kind, as typed objects. Unknown fields are errors.
func of[T any](t *testing.T, all objects, kind string) (out []*T) {
	t.Helper()
	for _, o := range all {
		if o.GetKind() != kind {
			continue
		}
		into := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
			t.Fatalf("%s: %v", id(o), err)
		}
		out = append(out, into)
	}
	return out
}

// deployment returns the Deployment whose name has a suffix.
func deployment(t *testing.T, all objects, suffix string) *appsv1.Deployment {
	t.Helper()
	for _, d := range of[appsv1.Deployment](t, all, "Deployment") {
		if strings.HasSuffix(d.Name, suffix) {
			return d
		}
	}
	t.Fatalf("no Deployment ends with %q in %v", suffix, all.ids())
	return nil
}

// rights returns what each service account may do, as lines "where group/resource[names]: verb". It fails for a binding without role.
func rights(t *testing.T, all objects) map[string][]string {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
		if r.Labels[aggregateToView] == "" {
			rules["ClusterRole /"+r.Name] = r.Rules
		}
	}
	for _, r := range of[rbacv1.Role](t, all, "Role") {
		rules["Role "+r.Namespace+"/"+r.Name] = r.Rules
	}
	bound := map[string]bool{}
	out := map[string][]string{}
	grant := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespace, where string) {
		role := ref.Kind + " " + namespace + "/" + ref.Name
		if rules[role] == nil {
			t.Errorf("%s is bound and does not exist", role)
		}
		bound[role] = true
		for _, s := range subjects {
			for _, r := range rules[role] {
				out[s.Name] = append(out[s.Name], lines(where, r)...)
			}
		}
	}
	for _, b := range of[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		grant(b.RoleRef, b.Subjects, "", "cluster")
	}
	for _, b := range of[rbacv1.RoleBinding](t, all, "RoleBinding") {
		grant(b.RoleRef, b.Subjects, b.Namespace, "own namespace")
	}
	for role := range rules {
		if !bound[role] {
			t.Errorf("%s is not bound", role)
		}
	}
	for account := range out {
		slices.Sort(out[account])
		out[account] = slices.Compact(out[account])
	}
	return out
}

func lines(where string, r rbacv1.PolicyRule) (out []string) {
	names := []string{""}
	if len(r.ResourceNames) > 0 {
		names = nil
		for _, name := range r.ResourceNames {
			names = append(names, "["+name+"]")
		}
	}
	for _, url := range r.NonResourceURLs {
		for _, verb := range r.Verbs {
			out = append(out, where+" "+url+": "+verb)
		}
	}
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, name := range names {
				for _, verb := range r.Verbs {
					out = append(out, fmt.Sprintf("%s %s/%s%s: %s", where, group, resource, name, verb))
				}
			}
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
