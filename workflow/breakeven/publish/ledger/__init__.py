"""The ledger: one entry a finding, what closes a lead and what reopens it; generated, checked and searched.

`build` merges measured findings with hand-written and imported entries, `check` judges the whole, `pages`
renders it, `prior_art` looks a lead up before it is measured again. The rules call
`python -m breakeven.publish.ledger`.
"""
