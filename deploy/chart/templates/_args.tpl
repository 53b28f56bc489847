{{/*
The arguments of a component, as a YAML list. Those of the user come last, so that they win.
*/}}
{{- define "podfit.args" -}}
{{- $root := .root }}
{{- $v := get $root.Values .key }}
{{- $single := eq .key "single" }}
{{- if eq (toString $root.Values.compatibility) "upstream" }}
- --compatibility=upstream
{{- end }}
{{- if include "podfit.leaderElection" . }}
- --leader-elect=true
- --leader-elect-resource-namespace={{ $v.leaderElection.resourceNamespace | default $root.Release.Namespace }}
- --leader-elect-resource-name={{ $v.leaderElection.resourceName }}
- --leader-elect-lease-duration={{ $v.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ $v.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ $v.leaderElection.retryPeriod }}
{{- end }}
{{- if eq .key (include "podfit.webhookComponent" $root) }}
{{- $a := $root.Values.admissionController }}
- --webhook-service={{ $a.service.name }}
- --webhook-timeout-seconds={{ $a.mutatingWebhookConfiguration.timeoutSeconds }}
{{- if eq $a.mutatingWebhookConfiguration.failurePolicy "Fail" }}
- --webhook-failure-policy-fail=true
{{- end }}
{{- if ne (include "podfit.certificates" $root) "own" }}
- --reload-cert=true
{{- end }}
{{- end }}
{{- if and $root.Values.rights.placeholderImage (ne .key "recommender") (ne .key "admissionController") }}
- --placeholder-image={{ $root.Values.rights.placeholderImage }}
{{- end }}
{{- if and $root.Values.rights.namespaceOptIn (or $single (eq .key "recommender")) }}
- --namespace-opt-in=true
{{- end }}
{{- if and $root.Values.rights.kubeletMetrics (or $single (eq .key "recommender")) }}
- --kubelet-usage=true
{{- end }}
{{- with $root.Values.prometheus }}
{{- if and .address (ne $.key "admissionController") }}
- --prometheus-address={{ .address }}
{{- if .insecure }}
- --prometheus-insecure=true
{{- end }}
{{- if .bearerTokenSecret.name }}
- --prometheus-bearer-token-file=/etc/prometheus-token/token
{{- end }}
{{- if and .history (ne $.key "updater") }}
- --storage=prometheus
{{- end }}
{{- end }}
{{- end }}
{{- if and $single $root.Values.web.enabled }}
- --web-address=:8945
- --web-auth={{ $root.Values.web.auth }}
{{- with $root.Values.web.hosts }}
- --web-hosts={{ join "," . }}
{{- end }}
{{- end }}
{{- with $v.logLevel }}
- --v={{ . }}
{{- end }}
{{- if $single }}
{{- range $from := list "recommender" "updater" "admissionController" }}
{{- with (get $root.Values $from).extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "podfit.volumes" -}}
{{- $root := .root }}
{{- if eq .key (include "podfit.webhookComponent" $root) }}
{{- $a := $root.Values.admissionController }}
{{- $mode := include "podfit.certificates" $root }}
{{- $names := dict "ca" "ca" "cert" "cert" "key" "key" }}
{{- if eq $mode "certManager" }}
{{- $names = dict "ca" "ca.crt" "cert" "tls.crt" "key" "tls.key" }}
{{- end }}
{{- if has $mode (list "certManager" "created") }}
- name: tls-certs
  secret:
    defaultMode: 420
    secretName: {{ include "podfit.tlsSecret" $root }}
    items:
    - key: {{ $names.ca }}
      path: caCert.pem
    - key: {{ $names.cert }}
      path: serverCert.pem
    - key: {{ $names.key }}
      path: serverKey.pem
{{- end }}
{{- range $a.volumes }}
{{- if or (ne .name "tls-certs") (eq $mode "files") }}
{{ toYaml (list .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $root.Values.prometheus.bearerTokenSecret.name (ne .key "admissionController") }}
- name: prometheus-token
  secret:
    secretName: {{ $root.Values.prometheus.bearerTokenSecret.name }}
    items:
    - key: {{ $root.Values.prometheus.bearerTokenSecret.key }}
      path: token
{{- end }}
{{- end }}

{{- define "podfit.volumeMounts" -}}
{{- $root := .root }}
{{- if eq .key (include "podfit.webhookComponent" $root) }}
{{- $mode := include "podfit.certificates" $root }}
{{- if has $mode (list "certManager" "created") }}
- name: tls-certs
  mountPath: /etc/tls-certs
  readOnly: true
{{- end }}
{{- range $root.Values.admissionController.volumeMounts }}
{{- if or (ne .name "tls-certs") (eq $mode "files") }}
{{ toYaml (list .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $root.Values.prometheus.bearerTokenSecret.name (ne .key "admissionController") }}
- name: prometheus-token
  mountPath: /etc/prometheus-token
  readOnly: true
{{- end }}
{{- end }}

{{- define "podfit.tlsSecret" -}}
{{- .Values.admissionController.tls.secretName | default (printf "%s-admission-controller-tls" (include "podfit.fullname" .) | trunc 63 | trimSuffix "-") }}
{{- end }}
