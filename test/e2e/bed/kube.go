// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	vpav1 "podfit.dev/podfit/api/v1"
)

// A Kube is a client of the cluster, as its administrator.
type Kube struct {
	kubernetes.Interface
	Metrics metricsclient.Interface
	Dynamic dynamic.Interface

	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewKube returns a client for the user of a kubeconfig file.
func NewKube(kubeconfig string) (*Kube, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // no limit: delays by the client would look like delays of the cluster
	// Warnings of the API server would break the demo's table.
	config.WarningHandler = rest.NoWarnings{}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metrics, err := metricsclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Kube{
		Interface: typed, Metrics: metrics, Dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery())),
	}, nil
}

// Parse returns the objects of a YAML file with one or more documents.
func Parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(o)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// Apply applies objects in order by server-side apply. Namespaced objects without a namespace get the given one.
func (k *Kube) Apply(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := k.apply(ctx, namespace, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// Delete deletes a cluster-scoped object.
func (k *Kube) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := k.resource("", o)
	if err != nil {
		return err
	}
	return r.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
}

// ApplyYAML applies the objects of a YAML text.
func (k *Kube) ApplyYAML(ctx context.Context, namespace, manifest string) error {
	objects, err := Parse([]byte(manifest))
	if err != nil {
		return err
	}
	return k.Apply(ctx, namespace, objects...)
}

func (k *Kube) apply(ctx context.Context, namespace string, o *unstructured.Unstructured) error {
	r, err := k.resource(namespace, o)
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = r.Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "podfit-bed", Force: new(true)})
	return err
}

func (k *Kube) resource(namespace string, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	m, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // the CRD may have been installed since
		k.mapper.Reset()
		m, err = k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return k.Dynamic.Resource(m.Resource), nil
	}
	if ns := o.GetNamespace(); ns != "" {
		namespace = ns
	}
	return k.Dynamic.Resource(m.Resource).Namespace(namespace), nil
}

// Autoscaler reads one VerticalPodAutoscaler.
func (k *Kube) Autoscaler(ctx context.Context, namespace, name string) (*vpav1.VerticalPodAutoscaler, error) {
	u, err := k.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[vpav1.VerticalPodAutoscaler](u)
}

// Autoscalers reads the VerticalPodAutoscalers of a namespace.
func (k *Kube) Autoscalers(ctx context.Context, namespace string) ([]*vpav1.VerticalPodAutoscaler, error) {
	return list[vpav1.VerticalPodAutoscaler](ctx, k, vpav1.ResourceAutoscalers, namespace)
}

// Checkpoints reads the checkpoints of a namespace.
func (k *Kube) Checkpoints(ctx context.Context, namespace string) ([]*vpav1.VerticalPodAutoscalerCheckpoint, error) {
	return list[vpav1.VerticalPodAutoscalerCheckpoint](ctx, k, vpav1.ResourceCheckpoints, namespace)
}

func list[T any](ctx context.Context, k *Kube, resource, namespace string) ([]*T, error) {
	l, err := k.Dynamic.Resource(vpav1.GroupVersion().WithResource(resource)).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]*T, 0, len(l.Items))
	for i := range l.Items {
		t, err := typed[T](&l.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func typed[T any](u *unstructured.Unstructured) (*T, error) {
	b, err := u.MarshalJSON()
	t := new(T)
	if err = errors.Join(err, json.Unmarshal(b, t)); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return t, nil
}
