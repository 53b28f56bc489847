// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	vpav1 "podfit.dev/podfit/api/v1"
)

var crds = resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions")

// ownKinds are the resources of podfit's own CRDs.
var ownKinds = []string{"updatestates", "usagehistories", "sizingprofiles", "capacityplans"}

func ownResource(name string) schema.GroupVersionResource {
	return resourceOf("podfit.dev", "v1alpha1", name)
}

// withoutCRD returns a fault in which a kind of podfit is not served, and then is again.
func withoutCRD(resource string) fault {
	var saved *unstructured.Unstructured
	return fault{name: "CRD " + resource + " deleted", kind: "CRD deleted", lasts: 20 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(crds).Get(f.Context(), resource+".podfit.dev", metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(crds).Delete(f.Context(), saved.GetName(), metav1.DeleteOptions{}))
	}, end: func(f *faulty) {
		f.create(crds, saved)
		f.installCRDs()
	}}
}

// installCRDs applies the CRDs as users do, and creates the SizingProfile of the test, which is deleted with its CRD.
func (f *faulty) installCRDs() {
	f.Helper()
	f.eventually("the CRDs are installed", time.Minute, func(ctx context.Context) error { return f.Install(ctx, filepath.Join(f.root, "deploy")) })
	f.eventually("the SizingProfile is created", time.Minute, func(ctx context.Context) error {
		return f.ApplyYAML(ctx, "", sizingProfile(teamProfile, double))
	})
}

// withoutCRDsAtStart returns a fault in which the components start before the CRDs of podfit exist.
func withoutCRDsAtStart() fault {
	return fault{name: "CRDs of podfit missing at the start", lasts: 20 * time.Second, kills: true, begin: func(f *faulty) {
		f.killComponents(componentNames...)
		for _, kind := range ownKinds {
			f.must(f.Dynamic.Resource(crds).Delete(f.Context(), kind+".podfit.dev", metav1.DeleteOptions{}))
		}
		f.eventually("the CRDs are deleted", time.Minute, func(ctx context.Context) error {
			for _, kind := range ownKinds {
				if _, err := f.Dynamic.Resource(crds).Get(ctx, kind+".podfit.dev", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("CRD %s exists: %w", kind, err)
				}
			}
			return nil
		})
		f.startComponents(componentNames...)
		f.must(f.provoke(f.Context()))
	}, end: func(f *faulty) { f.installCRDs() }}
}

// downgradedCRDs returns a fault in which the CRDs of podfit are replaced by older ones while it runs: they have half of the fields of the status, and the
// API server drops the others.
func downgradedCRDs() fault {
	return fault{name: "CRDs downgraded: half of the fields of the status", lasts: 25 * time.Second, begin: func(f *faulty) {
		dropped := 0
		for _, kind := range ownKinds {
			f.eventually("CRD "+kind+" is replaced", time.Minute, func(ctx context.Context) error {
				crd, err := f.Dynamic.Resource(crds).Get(ctx, kind+".podfit.dev", metav1.GetOptions{})
				if err != nil {
					return err
				}
				versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
				if err != nil {
					return err
				}
				n := 0
				for _, v := range versions {
					status, ok, _ := unstructured.NestedFieldNoCopy(v.(map[string]any), "schema", "openAPIV3Schema", "properties", "status")
					if ok {
						n += downgrade(status.(map[string]any))
					}
				}
				if n == 0 {
					return nil
				}
				if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
					return err
				}
				if _, err = f.Dynamic.Resource(crds).Update(ctx, crd, metav1.UpdateOptions{}); err == nil {
					dropped += n
				}
				return err
			})
		}
		if dropped == 0 {
			f.Fatal("no field was removed from the CRDs")
		}
		f.must(f.provoke(f.Context()))
	}, end: func(f *faulty) { f.installCRDs() }}
}

// downgrade removes every second property of a schema, and that unknown ones are preserved. It returns how many.
func downgrade(schema map[string]any) (n int) {
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		delete(schema, "x-kubernetes-preserve-unknown-fields")
		n++
	}
	properties, _ := schema["properties"].(map[string]any)
	for i, name := range slices.Sorted(maps.Keys(properties)) {
		if i%2 == 1 {
			delete(properties, name)
			n++
		}
	}
	delete(schema, "required")
	return n
}

func faultsOfCRDs() []fault {
	all := []fault{withoutCRDsAtStart(), downgradedCRDs()}
	for _, kind := range ownKinds {
		all = append(all, withoutCRD(kind))
	}
	return all
}

// corrupted returns a fault in which all objects of a kind of podfit have other values than podfit has written, and the component that reads them at
// its start is killed.
func corrupted(resource schema.GroupVersionResource, ns, component string) fault {
	return fault{name: "corrupt " + resource.Resource, lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
		objects, n := f.Dynamic.Resource(resource).Namespace(ns), 0
		f.eventually("there are "+resource.Resource, recoversWithin, func(ctx context.Context) error {
			l, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil || len(l.Items) == 0 {
				return errors.Join(err, errors.New("none"))
			}
			for _, o := range l.Items {
				n += f.corruptFields(objects, &o)
			}
			if n == 0 {
				return errors.New("no field could be changed")
			}
			return nil
		})
		f.Logf("%d fields changed", n)
		f.killComponents(component)
	}, end: func(f *faulty) { f.startComponents(component) }}
}

// corruptFields changes the fields of the spec and the status of an object as far as the API server accepts it. It returns the number of changed fields.
func (f *faulty) corruptFields(objects dynamic.ResourceInterface, o *unstructured.Unstructured) (n int) {
	f.Helper()
	for _, part := range []string{"spec", "status"} {
		fields, _ := o.Object[part].(map[string]any)
		for field, value := range fields {
			patch, err := json.Marshal(map[string]any{part: map[string]any{field: corrupt(value)}})
			f.must(err)
			for _, sub := range [][]string{nil, {"status"}} {
				got, err := objects.Patch(f.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, sub...)
				if err != nil {
					continue
				}
				now, _, _ := unstructured.NestedFieldNoCopy(got.Object, part, field)
				if !reflect.DeepEqual(now, value) {
					n++
					break
				}
			}
		}
	}
	return n
}

// corrupt returns another value of the same type, as far as the API server accepts it.
func corrupt(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = corrupt(x)
		}
		return out
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, corrupt(x))
		}
		return append(out, out...)
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "9999-01-01T00:00:00Z"
		}
		return strings.Repeat("A", len(v))
	case int64:
		return -v - 1
	case float64:
		return -v - 1
	}
	return v
}

// corruptState returns a fault in which the updater starts with an UpdateState that it has not written. It deletes those that it does not need. It leaves the
// workload alone for five minutes, because the UpdateState says that an updater acts on it.
func corruptState(workload string, long bool) fault {
	manifest := `apiVersion: podfit.dev/v1alpha1
kind: UpdateState
metadata: {name: deployment-` + workload + `}
spec: {target: {group: apps, kind: Deployment, name: ` + workload + `}}
`
	const status = `{"status": {"updated": "9999-01-01T00:00:00Z", "omittedPods": -1, "actingSince": "9999-01-01T00:00:00Z", "evictions": {"lastTime": "9999-01-01T00:00:00Z",
		"ineffective": 2147483647, "requested": [{"container": "app", "requests": {"cpu": "-1"}}]}, "pods": [{"uid": "AAAA", "action": "Resize", "lastTime":
		"9999-01-01T00:00:00Z", "attempts": 2147483647, "outcome": "AAAA"}, 7, null], "canary": {"phase": "AAAA"}, "capacity": [], "changes": {}}}`
	return fault{name: "corrupt updatestates of " + workload, kind: "corrupt updatestates", long: long, lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
		f.killComponents("updater")
		f.apply(manifest)
		states := f.Dynamic.Resource(resourceOf("podfit.dev", "v1alpha1", "updatestates")).Namespace(pulseSpace)
		_, err := states.Patch(f.Context(), "deployment-"+workload, types.MergePatchType, []byte(status), metav1.PatchOptions{})
		if err != nil {
			_, err = states.Patch(f.Context(), "deployment-"+workload, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		}
		f.must(err)
	}, end: func(f *faulty) { f.startComponents("updater") }}
}

// garbledHistories returns a fault in which the recommender starts with UsageHistories whose data is damaged: every seventh byte is another one.
func garbledHistories() fault {
	return fault{name: "damaged data in usagehistories", lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
		histories := f.Dynamic.Resource(ownResource("usagehistories")).Namespace(learntSpace)
		n := 0
		f.eventually("there are usagehistories", recoversWithin, func(ctx context.Context) error {
			l, err := histories.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range l.Items {
				o := &l.Items[i]
				entries, _, err := unstructured.NestedSlice(o.Object, "status", "histories")
				if err != nil || len(entries) == 0 {
					continue
				}
				for _, e := range entries {
					entry := e.(map[string]any)
					text, _ := entry["data"].(string)
					data, err := base64.StdEncoding.DecodeString(text)
					f.must(err)
					for at := 0; at < len(data); at += 7 {
						data[at] ^= 0x5a
					}
					entry["data"] = base64.StdEncoding.EncodeToString(data)
				}
				f.must(unstructured.SetNestedSlice(o.Object, entries, "status", "histories"))
				if _, err := histories.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
					return err
				}
				n += len(entries)
			}
			if n == 0 {
				return errors.New("none has an entry")
			}
			return nil
		})
		f.Logf("%d entries damaged", n)
		f.killComponents("recommender")
	}, end: func(f *faulty) { f.startComponents("recommender") }}
}

// wrongProfiles returns a fault in which the recommender starts with a SizingProfile that the API server accepts and that makes no sense.
func wrongProfiles() fault {
	const wrong = `{"spec": {"base": "busy-hours", "about": "wrong", "histogram": null, "canaryDuration": "1h1h1h1h", "busyHours": {"from": 9, "to": 17,
		"timeZone": "Mars/Olympus", "floorMillicores": 1000000, "mostMillicores": 1, "criticality": 3, "mostOfNode": 0.05, "percentile": 1.0, "startup": "1h"}}}`
	return fault{name: "corrupt sizingprofiles", lasts: 15 * time.Second, kills: true, begin: func(f *faulty) {
		_, err := f.Dynamic.Resource(ownResource("sizingprofiles")).Patch(f.Context(), teamProfile, types.MergePatchType, []byte(wrong), metav1.PatchOptions{})
		f.must(err)
		f.wait(10 * time.Second) // the running components see it
		f.killComponents(componentNames...)
		f.startComponents(componentNames...)
	}, end: func(f *faulty) {
		f.must(f.Dynamic.Resource(ownResource("sizingprofiles")).Delete(f.Context(), teamProfile, metav1.DeleteOptions{}))
		f.applyProfile()
		f.must(f.patchStatus(f.Context(), f.Kube, learntSpace, "team", nil))
		f.eventually("podfit recommends by the corrected profile", recoversWithin, f.isRecommended("team"))
	}}
}

func faultsOfStoredState() []fault {
	checkpoints := corrupted(vpav1.GroupVersion().WithResource(vpav1.ResourceCheckpoints), learntSpace, "recommender")
	checkpoints.forgets = true
	return []fault{
		checkpoints,
		corruptState("beat", false),
		corruptState("pulse", true),
		corrupted(ownResource("capacityplans"), "", "recommender"),
		corrupted(ownResource("usagehistories"), learntSpace, "recommender"),
		garbledHistories(),
		wrongProfiles(),
	}
}
