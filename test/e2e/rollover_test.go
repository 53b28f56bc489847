// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"podfit.dev/podfit/test/e2e/bed"
)

// TestAdmissionController_rollingUpdate_sizesEveryPod replaces the admission controller twice, as a rolling update of its
// Deployment does: a new replica starts, becomes an endpoint of the service when its readiness probe succeeds, and the old
// replica ends. Every pod that is created meanwhile gets its size. A replica that cannot work, here because it has no
// permissions, does not become ready, so a rolling update stops there.
func TestAdmissionController_rollingUpdate_sizesEveryPod(t *testing.T) {
	p := newPlace(t, "rolled-over")
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Initial"))
	pods := p.start("steady", 2)
	p.eventually("the target is upstream's", measured, p.recommended("steady", steadyTarget))

	if err := p.admission.Stop(); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		component, err := admission()
		if err == nil {
			p.admission, err = p.healthy(context.Background(), component)
		}
		if err == nil {
			ctx, cancel := bed.WithPatience(context.Background(), time.Minute)
			defer cancel()
			err = bed.Until(ctx, 100*time.Millisecond, func(ctx context.Context) error { return p.tryCreation(ctx, pods[0]) })
		}
		if err != nil {
			t.Error(err)
		}
	})
	s := p.serve("vpa-webhook")
	probe := p.readinessProbe()
	old := p.replica("replica-0", bed.Admission().Account)
	p.becomesReady(old, probe)
	s.add(old.webhook)
	p.eventually("the webhook is registered with its service", time.Minute, func(ctx context.Context) error { return p.leadTo(ctx, s.port) })
	p.eventually("new pods get their size", time.Minute, func(ctx context.Context) error { return p.tryCreation(ctx, pods[0]) })

	end := p.keepCreating(pods[0])
	for i := range 2 {
		next := p.replica(fmt.Sprintf("replica-%d", i+1), bed.Admission().Account)
		p.becomesReady(next, probe)
		s.add(next.webhook)
		s.remove(old.webhook)
		if err := old.Stop(); err != nil {
			t.Error(err)
		}
		old = next
		p.always("the next replica is the only one", 3*time.Second, func(context.Context) error { return nil })
	}
	n, unsized := end()
	t.Logf("%d pods were created", n)
	if n < 20 {
		t.Errorf("only %d pods were created", n)
	}
	if len(unsized) > 0 {
		t.Errorf("%d of %d pods did not get their size, the first: %v", len(unsized), n, unsized[0])
	}
	idle := p.replica("replica-without-permissions", "default")
	p.always("a replica without permissions is not ready", 5*time.Second, func(ctx context.Context) error {
		if _, err := idle.Get(ctx, probe); err == nil {
			return errors.New("its probe succeeds")
		}
		return nil
	})
}

// A replica is an admission controller behind a service.
type replica struct {
	*bed.Podfit
	webhook string // address
}

// replica starts an admission controller with the token of a service account.
func (p *place) replica(name, account string) replica {
	p.Helper()
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	c := bed.Admission().Named(name).With(fmt.Sprintf("--port=%d", port), "--status-lease-update-interval=2s")
	c.Account = account
	r, err := p.Cluster.Run(p.Context(), p.binary, c)
	if err != nil {
		p.Fatal(err)
	}
	p.endsWithTest(r)
	return replica{r, fmt.Sprintf("127.0.0.1:%d", port)}
}

// becomesReady waits until the readiness probe of a replica succeeds. It polls often, to find replicas that are ready too early.
func (p *place) becomesReady(r replica, probe string) {
	p.Helper()
	ctx, cancel := bed.WithPatience(p.Context(), time.Minute)
	defer cancel()
	if err := bed.Until(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		_, err := r.Get(ctx, probe)
		return err
	}); err != nil {
		p.Fatalf("%s does not become ready: %v", r.Name, err)
	}
}

// readinessProbe returns the path of the readiness probe in deploy/.
func (p *place) readinessProbe() string {
	p.Helper()
	b, err := os.ReadFile(filepath.Join(p.root, "deploy", "40-admission-controller.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	objects, err := bed.Parse(b)
	if err != nil {
		p.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if c, ok := containers[0].(map[string]any); ok {
			if page, found, _ := unstructured.NestedString(c, "readinessProbe", "httpGet", "path"); found {
				return page
			}
		}
	}
	p.Fatal("the Deployment of the admission controller has no readiness probe")
	return ""
}

// leadTo sets the service port of the registered webhook. The local cluster has no kube-proxy that could map ports.
func (p *place) leadTo(ctx context.Context, port int32) error {
	configurations := p.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(ctx, "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(c.Webhooks) == 0 || c.Webhooks[0].ClientConfig.Service == nil {
		return errors.New("the webhook is not registered with a service")
	}
	service := c.Webhooks[0].ClientConfig.Service
	if service.Port != nil && *service.Port == port {
		return nil
	}
	service.Port = &port
	_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// tryCreation creates a pod in a dry run, with the owner of another pod. It returns an error if the pod does not get its size.
func (p *place) tryCreation(ctx context.Context, like corev1.Pod) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Labels: like.Labels, OwnerReferences: like.OwnerReferences},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "test/app"}}},
	}
	made, err := p.CoreV1().Pods(p.ns).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if made.Annotations["vpaUpdates"] == "" {
		return fmt.Errorf("at %s a pod requests %v", time.Now().UTC().Format(time.TimeOnly), made.Spec.Containers[0].Resources.Requests)
	}
	return nil
}

// keepCreating calls tryCreation until the returned function is called, which returns the number of calls and their errors.
func (p *place) keepCreating(like corev1.Pod) func() (int, []error) {
	ctx, cancel := context.WithCancel(p.Context())
	type result struct {
		n       int
		unsized []error
	}
	results := make(chan result, 1)
	go func() {
		var r result
		_ = bed.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			err := p.tryCreation(ctx, like)
			if ctx.Err() != nil {
				return nil
			}
			r.n++
			if err != nil {
				r.unsized = append(r.unsized, err)
			}
			return errors.New("not yet")
		})
		results <- r
	}()
	return func() (int, []error) {
		cancel()
		r := <-results
		return r.n, r.unsized
	}
}

// A service forwards connections to its endpoints in turn, as kube-proxy does.
type service struct {
	port     int32
	listener net.Listener

	mu        sync.Mutex
	endpoints []string
	next      int
}

// serve creates a service in podfit's namespace that resolves to a listener of this process.
func (p *place) serve(name string) *service {
	p.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	s := &service{listener: l, port: int32(l.Addr().(*net.TCPAddr).Port)}
	services := p.CoreV1().Services(bed.Namespace)
	if _, err := services.Create(p.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	go s.run()
	p.Cleanup(func() {
		l.Close()
		if err := services.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			p.Error(err)
		}
	})
	return s
}

func (s *service) add(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, endpoint)
}

func (s *service) remove(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = slices.DeleteFunc(s.endpoints, func(e string) bool { return e == endpoint })
}

// pick returns the endpoint for the next connection, or "".
func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) == 0 {
		return ""
	}
	s.next++
	return s.endpoints[s.next%len(s.endpoints)]
}

func (s *service) run() {
	for {
		in, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.pass(in)
	}
}

// pass forwards data of a connection in both directions until either end closes it.
func (s *service) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", s.pick())
	if err != nil {
		return
	}
	defer out.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[1], way[0])
			ended <- struct{}{}
		}()
	}
	<-ended
}
