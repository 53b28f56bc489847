{{/*
The names and selectors are those of upstream's chart: the selector of a Deployment cannot change, so with others an upgrade from upstream's
chart would fail.
*/}}
{{- define "podfit.name" -}}
{{- default "vertical-pod-autoscaler" .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "podfit.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default "vertical-pod-autoscaler" .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Completes .Values with defaults of the values that upstream's chart does not have. With helm upgrade --reuse-values, .Values contains only
values of the previous chart.
*/}}
{{- define "podfit.defaults" -}}
{{- include "podfit.complete" (dict "values" .Values "defaults" (.Files.Get "files/defaults.yaml" | fromYaml)) }}
{{- end }}

{{- define "podfit.complete" -}}
{{- $values := .values }}
{{- range $key, $default := .defaults }}
{{- if not (hasKey $values $key) }}
{{- $_ := set $values $key $default }}
{{- else if and (kindIs "map" $default) $default (kindIs "map" (get $values $key)) (not (has $key (list "affinity" "resources" "labels"))) }}
{{- include "podfit.complete" (dict "values" (get $values $key) "defaults" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A component is a section of the values. Call with (dict "root" $ "key" "recommender").
*/}}
{{- define "podfit.component" -}}
{{- get (dict "recommender" "recommender" "updater" "updater" "admissionController" "admission-controller" "single" "podfit") .key }}
{{- end }}

{{- define "podfit.componentFullname" -}}
{{- if eq .key "single" }}
{{- include "podfit.fullname" .root }}
{{- else }}
{{- printf "%s-%s" (include "podfit.fullname" .root) (include "podfit.component" .) }}
{{- end }}
{{- end }}

{{/*
The Deployments that this release has, as a YAML list of sections of the values.
*/}}
{{- define "podfit.components" -}}
{{- if eq .Values.mode "single" }}
- single
{{- else }}
{{- range $key := list "recommender" "updater" "admissionController" }}
{{- if (get $.Values $key).enabled }}
- {{ $key }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The section of the values of the Deployment that serves the webhook, or nothing.
*/}}
{{- define "podfit.webhookComponent" -}}
{{- if eq .Values.mode "single" }}single{{ else if .Values.admissionController.enabled }}admissionController{{ end }}
{{- end }}

{{- define "podfit.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "podfit.releaseLabels" .root }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .key }}
app.kubernetes.io/component: {{ include "podfit.component" $ }}
app.kubernetes.io/component-instance: {{ $.root.Release.Name }}-{{ include "podfit.component" $ }}
{{- end }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "podfit.releaseLabels" -}}
app.kubernetes.io/name: {{ include "podfit.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "podfit.selectorLabels" -}}
{{ include "podfit.releaseLabels" .root }}
app.kubernetes.io/component: {{ include "podfit.component" . }}
{{- end }}

{{- define "podfit.image" -}}
{{- $image := (get .root.Values .key).image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (toString (default .root.Chart.AppVersion $image.tag)) }}
{{- end }}
{{- end }}

{{- define "podfit.leaderElection" -}}
{{- $v := get .root.Values .key }}
{{- if and $v.leaderElection (kindIs "bool" $v.leaderElection.enabled) }}
{{- if $v.leaderElection.enabled }}true{{ end }}
{{- else if and $v.leaderElection (gt (int $v.replicas) 1) }}true
{{- end }}
{{- end }}

{{/*
How the webhook gets its certificate: own (podfit creates it), certManager, or files (tls.create, or volumes of the user).
*/}}
{{- define "podfit.certificates" -}}
{{- $v := .Values.admissionController }}
{{- if ($v.certManager).enabled }}certManager
{{- else if $v.tls.create }}created
{{- else if and (not ($v.certGen).enabled) $v.volumes }}files
{{- else }}own
{{- end }}
{{- end }}

{{/*
True if podfit keeps the webhook configuration up to date, whatever registerWebhook is: the chart contains no other configuration.
*/}}
{{- define "podfit.registers" -}}
{{- $off := false }}
{{- range $arg := concat (.Values.admissionController.extraArgs | default list) (ternary .Values.single.extraArgs list (eq .Values.mode "single")) }}
{{- if has (toString $arg | replace "_" "-") (list "--register-webhook=false" "--register-webhook=0" "--register-webhook=f") }}
{{- $off = true }}
{{- end }}
{{- end }}
{{- if not $off }}true{{ end }}
{{- end }}

{{/*
True unless the object exists and belongs to something else than this release, in which case Helm would refuse to install it. Call with
(dict "root" $ "apiVersion" ... "kind" ... "namespace" ... "name" ...).
*/}}
{{- define "podfit.isOurs" -}}
{{- $live := lookup .apiVersion .kind .namespace .name }}
{{- $owner := "" }}
{{- if $live }}
{{- $annotations := $live.metadata.annotations | default dict }}
{{- $owner = printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") }}
{{- end }}
{{- if or (not $live) (eq $owner (printf "%s/%s" .root.Release.Namespace .root.Release.Name)) }}true{{ end }}
{{- end }}
