// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"podfit.dev/podfit/test/e2e/bed"
)

// interrupt ends the connections of the components, so that they need their rights to watch again.
func (f *faulty) interrupt() {
	f.wait(time.Second) // until the API server knows that the right is gone
	for _, name := range componentNames {
		f.doors[name].Interrupt()
	}
}

// withoutRight returns a fault in which podfit loses rights while it runs.
func withoutRight(binding string) fault {
	var saved *unstructured.Unstructured
	bindings := resourceOf("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
	return fault{name: "without " + binding, kind: "right removed", lasts: 12 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(bindings).Get(f.Context(), binding, metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(bindings).Delete(f.Context(), binding, metav1.DeleteOptions{}))
		f.interrupt()
	}, end: func(f *faulty) { f.create(bindings, saved) }}
}

// withoutRule returns a fault in which a role loses one of its rules while podfit runs. rule is the rule in the manifest.
func withoutRule(role *unstructured.Unstructured, rule map[string]any) fault {
	words := func(field string) string {
		list, _, _ := unstructured.NestedStringSlice(rule, field)
		return strings.Join(list, ",")
	}
	name := fmt.Sprintf("without rule of %s %s: %s %s", role.GetKind(), role.GetName(), words("verbs"), words("resources")+words("nonResourceURLs"))
	if only := words("resourceNames"); only != "" {
		name += " named " + only
	}
	roles := resourceOf("rbac.authorization.k8s.io", "v1", strings.ToLower(role.GetKind())+"s")
	var saved []any
	set := func(f *faulty, ctx context.Context, change func(rules []any) []any) error {
		live, err := f.Dynamic.Resource(roles).Namespace(role.GetNamespace()).Get(ctx, role.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		rules, _ := live.Object["rules"].([]any) // null if there are none
		live.Object["rules"] = change(rules)
		_, err = f.Dynamic.Resource(roles).Namespace(role.GetNamespace()).Update(ctx, live, metav1.UpdateOptions{})
		return err
	}
	return fault{name: name, kind: "right removed", long: true, lasts: 15 * time.Second, begin: func(f *faulty) {
		f.must(set(f, f.Context(), func(rules []any) []any {
			saved = rules
			less := slices.DeleteFunc(slices.Clone(rules), func(r any) bool { return reflect.DeepEqual(r, any(rule)) })
			if len(less) != len(rules)-1 {
				f.Fatalf("%s %s has %d of %d rules without %v", role.GetKind(), role.GetName(), len(less), len(rules), rule)
			}
			return less
		}))
		f.interrupt()
		if err := f.provoke(f.Context()); err != nil && !apierrors.IsForbidden(err) { // it may need the rule
			f.must(err)
		}
	}, end: func(f *faulty) {
		f.eventually("the rule is restored", time.Minute, func(ctx context.Context) error {
			return set(f, ctx, func([]any) []any { return saved })
		})
	}}
}

// faultsOfRights returns the faults in which podfit loses the rights of a binding, and in the long list those of one rule of a role.
func faultsOfRights(root string) (all []fault) {
	for _, name := range []string{
		"system:metrics-reader", "system:vpa-actor", "podfit:recommender", "podfit:updater", "system:vpa-status-actor", "system:vpa-checkpoint-actor",
		"podfit:profile-reader", "podfit:capacity-planner", "system:vpa-target-reader-binding", "system:vpa-evictioner-binding", "system:vpa-updater-in-place-binding",
		"system:vpa-status-reader-binding", "system:vpa-admission-controller",
	} {
		all = append(all, withoutRight(name))
	}
	components, err := bed.Components(filepath.Join(root, "deploy"))
	if err != nil {
		panic(err)
	}
	manifests, err := bed.Manifests(filepath.Join(root, "deploy"), components...)
	if err != nil {
		panic(err)
	}
	bound := map[string]bool{}
	for _, o := range manifests {
		if strings.HasSuffix(o.GetKind(), "RoleBinding") {
			kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			bound[kind+" "+name] = true
		}
	}
	for _, o := range manifests {
		if !bound[o.GetKind()+" "+o.GetName()] {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			all = append(all, withoutRule(o, rule.(map[string]any)))
		}
	}
	return all
}
