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

{{/* Not empty if programs prove who they are. */}}
{{- define "shoal.hasIdentities" -}}
{{- if ne .Values.identities.source "none" }}yes{{ end }}
{{- end }}

{{/* The Secret with the certificate of a role. Call with (dict "context" $ "role" ROLE). */}}
{{- define "shoal.identitySecret" -}}
{{- if eq .context.Values.identities.source "secrets" }}
{{- get .context.Values.identities.secrets .role }}
{{- else }}
{{- printf "%s-%s-tls" (include "shoal.fullname" .context) .role }}
{{- end }}
{{- end }}

{{/* Where programs look for their certificate, also shoalctl in the scheduler's container. */}}
{{- define "shoal.identityFiles" -}}
SHOAL_TLS_CERT: /etc/shoal/tls/tls.crt
SHOAL_TLS_KEY: /etc/shoal/tls/tls.key
SHOAL_TLS_CA: /etc/shoal/tls/ca.crt
{{- end }}

{{- define "shoal.identityEnvironment" -}}
{{- range $name, $path := include "shoal.identityFiles" . | fromYaml }}
- name: {{ $name }}
  value: {{ $path }}
{{- end }}
{{- end }}

{{- define "shoal.identityMount" -}}
- name: tls
  mountPath: /etc/shoal/tls
  readOnly: true
{{- end }}

{{/* A volume with these files of a Secret, for the group of podSecurityContext. It is mounted as a whole, because a
subPath would not follow when the certificate is renewed. Call with (dict "name" VOLUME "secret" NAME "keys" LIST). */}}
{{- define "shoal.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}

{{/* Call with (dict "context" $ "role" ROLE). */}}
{{- define "shoal.identityVolume" -}}
{{- include "shoal.secretVolume" (dict "name" "tls" "secret" (include "shoal.identitySecret" .) "keys" (list "tls.crt" "tls.key" "ca.crt")) }}
{{- end }}

{{/* The identity that the chart gives to a path in its domain: "server", "worker/vision". */}}
{{- define "shoal.identity" -}}
spiffe://{{ .context.Values.identities.certManager.trustDomain }}/shoal/{{ .path }}
{{- end }}

{{/* The file for --identities; empty if there is none. With it the usual form has no role, so the chart's own Certificates
are in it. */}}
{{- define "shoal.identityRules" -}}
{{- $identities := .Values.identities }}
{{- with $identities.rules | default "" | trim }}
{{- . }}
{{- if eq $identities.source "cert-manager" }}
{{- range list "scheduler" "server" "operator" }}
{{ include "shoal.identity" (dict "context" $ "path" .) }} {{ . }}
{{- end }}
{{- range $identities.certManager.tenants }}
{{ include "shoal.identity" (dict "context" $ "path" (printf "worker/%s" .name)) }} worker {{ .name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A rule for egress. Wherever DNS is: in a namespace of any name, or on the node. */}}
{{- define "shoal.dnsRule" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP} # the pods of OpenShift's DNS
    - {port: 5353, protocol: TCP}
{{- end }}
