{{/* Names and labels. All text is quoted: a release may be called 2024 or true. */}}
{{- define "shoal.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimAll "-" }}
{{- end }}

{{/* Under 42 characters, as a StatefulSet adds "-scheduler", a hash and an ordinal to it. A longer name ends in a hash, so
that two that differ only at their end stay two. A Service's name has no dot, and up to Kubernetes 1.35 begins with a
letter, which that of a release need not. */}}
{{- define "shoal.fullname" -}}
{{- $name := include "shoal.name" . }}
{{- $release := .Release.Name | replace "." "-" }}
{{- $full := printf "%s-%s" $release $name }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if regexMatch "^[0-9]" $release }}
{{- $full = printf "%s-%s" $name $release }}
{{- else if contains $name $release }}
{{- $full = $release }}
{{- end }}
{{- if gt (len $full) 40 }}
{{- $full = printf "%s-%s" (trunc 31 $full | trimAll "-") (sha256sum $full | trunc 8) }}
{{- end }}
{{- $full }}
{{- end }}

{{- define "shoal.scheduler.fullname" -}}
{{ include "shoal.fullname" . }}-scheduler
{{- end }}

{{- define "shoal.server.fullname" -}}
{{ include "shoal.fullname" . }}-server
{{- end }}

{{/* What a pod is selected by: never changes over upgrades. Call with (dict "context" $ "role" ROLE). */}}
{{- define "shoal.selectorLabels" -}}
app.kubernetes.io/name: {{ include "shoal.name" .context | quote }}
app.kubernetes.io/instance: {{ .context.Release.Name | quote }}
app.kubernetes.io/component: {{ .role | quote }}
{{- end }}

{{/* Labels of a pod: without the versions, so that an upgrade of the chart alone starts no pod anew. */}}
{{- define "shoal.podLabels" -}}
{{ include "shoal.selectorLabels" . }}
app.kubernetes.io/part-of: "shoal"
{{- end }}

{{- define "shoal.labels" -}}
{{ include "shoal.podLabels" . }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* Fails for a label that one gives and that the chart sets itself: the object would have it twice. */}}
{{- define "shoal.checkLabels" -}}
{{- range $name, $ignored := .given }}
{{- if hasKey (fromYaml $.own) $name }}
{{- fail (printf "%s sets %s, which the chart sets itself: choose another name" $.path $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "shoal.serviceAccountName" -}}
{{- if .context.Values.serviceAccount.create }}
{{- printf "%s-%s" (include "shoal.fullname" .context) .role }}
{{- else -}}
default
{{- end }}
{{- end }}

{{/* Call with (dict "context" $ "image" IMAGE). */}}
{{- define "shoal.image" -}}
{{- if .image.digest }}
{{- printf "%s@%s" .image.repository .image.digest }}
{{- else }}
{{- printf "%s:%s" .image.repository (default .context.Chart.AppVersion .image.tag) }}
{{- end }}
{{- end }}

{{/* host:port of the scheduler; the whole name, so that trainers of other namespaces can use it too. Of several
schedulers the name has all addresses: a member goes on by another one without waiting for the Service to notice. */}}
{{- define "shoal.scheduler.address" -}}
{{ include "shoal.scheduler.fullname" . }}{{ if .Values.scheduler.store }}-all{{ end }}.{{ .Release.Namespace }}.svc:{{ .Values.scheduler.port }}
{{- end }}

{{/* A value as it was written: Helm reads numbers as floats and would print large ones with an exponent. */}}
{{- define "shoal.plain" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* The number that a quantity stands for. `thousand`: what K, M, G and T stand for the powers of; 1024 in slotMemory, 1000
in Kubernetes. */}}
{{- define "shoal.quantity" -}}
{{- $text := include "shoal.plain" .value }}
{{- $number := regexFind "^[0-9.]+([eE][-+]?[0-9]+)?" $text }}
{{- $unit := trimPrefix $number $text | trimSuffix "B" }}
{{- $k := float64 .thousand }}
{{- $factors := dict "" 1.0 "m" 0.001 "k" 1000.0 "K" $k "M" (mulf $k $k) "G" (mulf $k $k $k) "T" (mulf $k $k $k $k) "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- printf "%f" (mulf (float64 $number) (get $factors $unit | default 1.0)) }}
{{- end }}

{{/* Both programs run without privileges, on a read-only root, as the images' user. */}}
{{- define "shoal.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Where pods may run and what they rank, from a role's values. */}}
{{- define "shoal.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
